/* SPDX-License-Identifier: MIT */
/* cmd_quantize - `quire quantize`: a model file in other formats. Tensors go through one after
 * another in pieces of rows: floats on every worker, blocks on every worker, one write. Memory is
 * two pieces, whatever the model's size. Keys are copied; general.file_type tells the new mix. */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "core/cpus.h"
#include "core/gguf_writer.h"
#include "core/mem.h"
#include "core/str.h"
#include "core/workers.h"
#include "frontend/commands.h"
#include "frontend/interrupt.h"
#include "frontend/options.h"
#include "frontend/quantize_mix.h"
#include "kernels/dequant.h"
#include "kernels/quantize.h"

#define PIECE_ELEMS (4u << 20) /* of floats on their way; a row may be longer */

struct quantize_options {
    uint32_t threads;
    bool from_quantized;
    bool quiet;
};

#define AT(member) offsetof(struct quantize_options, member)
static const struct option rows[] = {
    { "--from-quantized", OPTION_FLAG, AT(from_quantized), 0, 0, NULL, NULL,
      "take a file that is quantized already; its errors stay and new ones come on top" },
    { "-t --threads", OPTION_U32, AT(threads), 1, WORKERS_MAX, "N", NULL,
      "threads; default: every usable processor" },
    { "-q --quiet", OPTION_FLAG, AT(quiet), 0, 0, NULL, NULL, "no line for each tensor" },
};

/* A piece of a tensor on its way through the workers. */
struct piece {
    enum dtype from, to;
    size_t cols, from_row_bytes, to_row_bytes;
    uint64_t row_count;
    const uint8_t *src;
    uint8_t *dst;
    float *floats; /* [row_count][cols] */
    double error[WORKERS_MAX], total[WORKERS_MAX];
};

struct job {
    const struct quantize_options *options;
    struct quantize_mix mix;
    struct gguf *in;
    struct gguf_writer *out;
    struct workers *workers;
    uint32_t layer_count;
    bool tied;
    uint64_t bytes_in, bytes_out, weights_out; /* weights: elements of matrices */
};

static void convert_rows(void *ctx, uint32_t worker, uint32_t worker_count)
{
    struct piece *p = ctx;
    uint64_t begin, end;
    workers_range(p->row_count, 1, worker, worker_count, &begin, &end);
    double error = 0, total = 0;
    for (uint64_t r = begin; r < end; r++) {
        float *x = p->floats + r * p->cols;
        uint8_t *dst = p->dst + r * p->to_row_bytes;
        dequant_row(p->from, p->src + r * p->from_row_bytes, x, p->cols);
        quantize_row(p->to, x, dst, p->cols);
        for (size_t i = 0; i < p->cols; i++)
            total += (double)x[i] * (double)x[i];
        /* What a reader will see, against what there was. */
        float y[256];
        const struct dtype_info *info = dtype_find((uint32_t)p->to);
        for (size_t i = 0; i < p->cols; i += info->block_elems, dst += info->block_bytes) {
            dequant_row(p->to, dst, y, info->block_elems);
            for (size_t j = 0; j < info->block_elems; j++) {
                double e = (double)y[j] - (double)x[i + j];
                error += e * e;
            }
        }
    }
    p->error[worker] += error;
    p->total[worker] += total;
}

/* The whole tensor, piece by piece; *rms is the relative error it leaves. */
static enum rc convert_tensor(struct job *job, const struct gguf_tensor *t, enum dtype type,
                              double *rms, struct fault *fault)
{
    struct piece p = { .from = t->type, .to = type, .cols = (size_t)t->dims[0] };
    uint64_t row_total = t->elems / t->dims[0];
    uint64_t piece_rows = PIECE_ELEMS / t->dims[0] > 0 ? PIECE_ELEMS / t->dims[0] : 1;
    if (!dtype_row_bytes(&p.from_row_bytes, t->type, t->dims[0]) ||
        !dtype_row_bytes(&p.to_row_bytes, type, t->dims[0]))
        return fault_set(fault, RC_CORRUPT, "%.*s: rows are not whole blocks", (int)t->name.len,
                         t->name.text);
    piece_rows = piece_rows < row_total ? piece_rows : row_total;
    p.floats = mem_alloc_array((size_t)piece_rows, p.cols * sizeof *p.floats);
    p.dst = mem_alloc_array((size_t)piece_rows, p.to_row_bytes);
    enum rc rc =
        p.floats != NULL && p.dst != NULL ? RC_OK : fault_set(fault, RC_NO_MEMORY, "out of memory");
    for (uint64_t done = 0; rc == RC_OK && done < row_total; done += p.row_count) {
        p.row_count = row_total - done < piece_rows ? row_total - done : piece_rows;
        p.src = t->data + done * p.from_row_bytes;
        workers_run(job->workers, convert_rows, &p);
        rc = gguf_writer_data(job->out, p.dst, (size_t)p.row_count * p.to_row_bytes, fault);
        if (rc == RC_OK && interrupt_signal() != 0)
            rc = fault_set(fault, RC_CANCELLED, "interrupted");
    }
    double error = 0, total = 0;
    for (uint32_t i = 0; i < workers_count(job->workers); i++) {
        error += p.error[i];
        total += p.total[i];
    }
    *rms = total > 0 ? sqrt(error / total) : 0;
    mem_free(p.floats);
    mem_free(p.dst);
    return rc;
}

/* A format that loses nothing which its own reader would see. */
static bool is_float(enum dtype type)
{
    return type == DTYPE_F32 || type == DTYPE_F16 || type == DTYPE_BF16 || type == DTYPE_F64;
}

static enum rc plan_tensor(struct job *job, const struct gguf_tensor *t, struct fault *fault)
{
    enum dtype type = quantize_mix_type(&job->mix, t, job->layer_count, job->tied);
    if (type != t->type && !is_float(t->type) && !job->options->from_quantized)
        return fault_set(fault, RC_USAGE,
                         "tensor %.*s is %s already, and quantizing again loses more: start from "
                         "an F32, F16 or BF16 file, or say --from-quantized",
                         (int)t->name.len, t->name.text, dtype_find((uint32_t)t->type)->name);
    gguf_writer_tensor(job->out, t, type);
    return RC_OK;
}

static enum rc write_directory(struct job *job, struct fault *fault)
{
    for (size_t i = 0; i < gguf_key_count(job->in); i++) {
        const struct gguf_key *key = gguf_key_at(job->in, i);
        struct str name = { key->name.text, key->name.len };
        /* A split model becomes one file. */
        if (!str_equal(name, str_of("general.file_type")) &&
            !str_equal(name, str_of("general.quantization_version")) &&
            !str_starts(name, str_of("split.")) && !str_equal(name, str_of("general.alignment")))
            gguf_writer_copy_key(job->out, key);
    }
    gguf_writer_key_u32(job->out, "general.quantization_version", 2);
    if (job->mix.file_type >= 0)
        gguf_writer_key_u32(job->out, "general.file_type", (uint32_t)job->mix.file_type);
    enum rc rc = RC_OK;
    for (size_t i = 0; rc == RC_OK && i < gguf_tensor_count(job->in); i++)
        rc = plan_tensor(job, gguf_tensor_at(job->in, i), fault);
    return rc;
}

static enum rc write_tensor(struct job *job, const struct gguf_tensor *t, struct fault *fault)
{
    enum dtype type = quantize_mix_type(&job->mix, t, job->layer_count, job->tied);
    double rms = 0;
    enum rc rc = type == t->type ? gguf_writer_data(job->out, t->data, (size_t)t->bytes, fault)
                                 : convert_tensor(job, t, type, &rms, fault);
    size_t row_bytes = 0;
    if (!dtype_row_bytes(&row_bytes, type, t->dims[0]))
        return fault_set(fault, RC_CORRUPT, "%.*s: rows are not whole blocks", (int)t->name.len,
                         t->name.text);
    uint64_t bytes = t->elems / t->dims[0] * row_bytes;
    job->bytes_in += t->bytes;
    job->bytes_out += bytes;
    job->weights_out += t->elems;
    if (!job->options->quiet)
        fprintf(stderr, "%-40.*s %-8s -> %-8s %12llu bytes  error %.5f\n", (int)t->name.len,
                t->name.text, dtype_find((uint32_t)t->type)->name, dtype_find((uint32_t)type)->name,
                (unsigned long long)bytes, rms);
    return rc;
}

static enum rc write_all(struct job *job, struct fault *fault)
{
    enum rc rc = write_directory(job, fault);
    for (size_t i = 0; rc == RC_OK && i < gguf_tensor_count(job->in); i++)
        rc = write_tensor(job, gguf_tensor_at(job->in, i), fault);
    return rc == RC_OK ? gguf_writer_finish(job->out, fault) : rc;
}

/* Layers of the model; a file that does not say counts as having none. */
static enum rc read_layer_count(struct job *job, struct fault *fault)
{
    struct gguf_text arch;
    char name[96];
    enum rc rc = gguf_get_text(job->in, "general.architecture", &arch, fault);
    if (rc != RC_OK)
        return rc == RC_NOT_FOUND ? RC_OK : rc;
    snprintf(name, sizeof name, "%.*s.block_count", (int)(arch.len < 64 ? arch.len : 64),
             arch.text);
    rc = gguf_get_u32(job->in, name, 0, UINT32_MAX, &job->layer_count, fault);
    return rc == RC_NOT_FOUND ? RC_OK : rc;
}

static bool same_file(const char *a, const char *b)
{
    struct stat sa, sb;
    return stat(a, &sa) == 0 && stat(b, &sb) == 0 && sa.st_dev == sb.st_dev &&
           sa.st_ino == sb.st_ino;
}

static enum rc open_job(struct job *job, const char *in, const char *out, struct fault *fault)
{
    enum rc rc = gguf_open(&job->in, in, fault);
    if (rc != RC_OK)
        return rc;
    for (uint32_t i = 0; i < gguf_file_count(job->in); i++)
        if (same_file(gguf_file_path(job->in, i), out))
            return fault_set(fault, RC_USAGE, "%s is what is read: choose another name", out);
    uint32_t threads = job->options->threads;
    struct cpus cpus;
    if (threads == 0 && (rc = cpus_read(&cpus, "")) == RC_OK)
        threads = cpus.count;
    if (rc != RC_OK)
        return fault_set(fault, rc, "the processors cannot be counted: %s", rc_text(rc));
    job->tied = gguf_find_tensor(job->in, "output.weight") == NULL;
    rc = read_layer_count(job, fault);
    if (rc == RC_OK)
        rc = workers_open(&job->workers, threads, NULL, false, fault);
    if (rc == RC_OK)
        rc = gguf_writer_open(&job->out, out, fault);
    return rc;
}

int cmd_quantize(int argc, char **argv)
{
    struct quantize_options o = { 0 };
    struct option_group groups[] = { { "quantize", rows, sizeof rows / sizeof rows[0], &o } };
    const char *words[3];
    struct option_set set = { "quantize",
                              "IN.gguf OUT.gguf TYPE",
                              "Writes a model in another format: TYPE is one format for all "
                              "matrices, or a mix such as Q4_K_M.",
                              groups,
                              1,
                              words,
                              3,
                              0 };
    int status = options_begin(&set, argc, argv);
    if (status >= 0)
        return status;
    struct fault fault;
    struct job job = { .options = &o };
    enum rc rc = RC_OK;
    char names[400];
    if (set.operand_count != 3) {
        rc = fault_set(&fault, RC_USAGE, "wanted: quire quantize IN.gguf OUT.gguf TYPE");
    } else if (!quantize_mix_find(&job.mix, words[2])) {
        quantize_mix_names(names, sizeof names);
        rc = fault_set(&fault, RC_USAGE, "TYPE %.20s is none of: %s", words[2], names);
    }
    interrupt_install();
    if (rc == RC_OK)
        rc = open_job(&job, words[0], words[1], &fault);
    if (rc == RC_OK)
        rc = write_all(&job, &fault);
    if (rc == RC_OK)
        fprintf(stderr, "%s: %llu bytes of tensors, were %llu; %.3f bits a weight\n", words[1],
                (unsigned long long)job.bytes_out, (unsigned long long)job.bytes_in,
                8.0 * (double)job.bytes_out / (double)job.weights_out);
    gguf_writer_close(job.out);
    workers_close(job.workers);
    gguf_close(job.in);
    if (interrupt_signal() != 0)
        return 128 + interrupt_signal();
    if (rc == RC_OK)
        return 0;
    fprintf(stderr, "quire quantize: %s\n", fault.text);
    return rc_exit_status(rc);
}
