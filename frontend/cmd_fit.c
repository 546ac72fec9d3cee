/* SPDX-License-Identifier: MIT */
/* cmd_fit - `quire fit`: will it fit, how, and how fast. From a file everything is measured or read
 * from it; from numbers alone the sizes are products of what was given. A board's figures take the
 * place of measuring, a flag's of both. Exit 0 when it fits, whole or streamed, 4 when it does
 * not. */
#include <stdio.h>
#include <string.h>

#include <jansson.h>

#include "core/cpus.h"
#include "core/mem.h"
#include "core/str.h"
#include "frontend/budget.h"
#include "frontend/commands.h"
#include "frontend/fit.h"
#include "frontend/fit_measure.h"
#include "frontend/options.h"
#include "kernels/exec_cpu.h"

#define CTX_DEFAULT 4096u
#define DISK_ASSUMED 200e6
#define SCRATCH_ASSUMED (12u << 20) /* of a model of a few billion parameters, 16 rows a step */
#define ADVICE_MAX 6u

struct flags {
    const char *model, *params, *type, *device;
    uint32_t layers, kv_heads, head_dim, key_type, value_type, ctx, users, threads;
    uint64_t ram, mem, disk, memory, macs;
    bool json, boards;
};

static const char *const kv_names[] = { "f16", "q8_0", "q4_0", NULL };
static const uint32_t kv_bits[] = { 512, 272, 144 }; /* of 32 elements */

#define AT(member) offsetof(struct flags, member)
static const struct option rows[] = {
    { "-m --model", OPTION_TEXT, AT(model), 0, 0, "FILE", NULL, "the same as the word MODEL" },
    { "--params", OPTION_TEXT, AT(params), 0, 0, "N", NULL,
      "without a file: parameters, such as 1.1B or 350M" },
    { "--layers", OPTION_U32, AT(layers), 1, MODEL_LAYERS_MAX, "N", NULL,
      "without a file: layers" },
    { "--kv-heads", OPTION_U32, AT(kv_heads), 1, MODEL_HEADS_MAX, "N", NULL,
      "without a file: KV heads" },
    { "--head-dim", OPTION_U32, AT(head_dim), 1, MODEL_HEAD_DIM_MAX, "N", NULL,
      "without a file: elements of a head" },
    { "--type", OPTION_TEXT, AT(type), 0, 0, "NAME", NULL,
      "without a file: format of the weights, such as Q4_K, Q4_K_M, Q8_0" },
    { "-ctk --kv-type-k --cache-type-k", OPTION_CHOICE, AT(key_type), 0, 0, "TYPE", kv_names,
      "cached keys: f16, q8_0, q4_0" },
    { "-ctv --kv-type-v --cache-type-v", OPTION_CHOICE, AT(value_type), 0, 0, "TYPE", kv_names,
      "cached values: f16, q8_0, q4_0" },
    { "-c --ctx-size --max-model-len", OPTION_U32, AT(ctx), 0, CTX_TOKENS_MAX, "N", NULL,
      "tokens of each user; 0 = as trained, at most 4096" },
    { "-np --users --parallel", OPTION_U32, AT(users), 1, 1024, "N", NULL, "users at once" },
    { "--device", OPTION_TEXT, AT(device), 0, 0, "NAME", NULL,
      "a board: pi-zero-2w, pi-4, pi-4-ssd, pi-5, pi-5-nvme, licheerv, licheerv-nano" },
    { "--ram", OPTION_U64, AT(ram), 0, 1e15, "SIZE", NULL,
      "memory of the machine; the system keeps an eighth" },
    { "--mem", OPTION_U64, AT(mem), 0, 1e15, "SIZE", NULL,
      "memory the process may take; 0 = what there is" },
    { "--disk", OPTION_U64, AT(disk), 0, 1e15, "SIZE", NULL, "bytes read from disk in a second" },
    { "--bandwidth", OPTION_U64, AT(memory), 0, 1e15, "SIZE", NULL,
      "bytes read from memory in a second" },
    { "--macs", OPTION_U64, AT(macs), 0, 1e18, "N", NULL, "multiply-adds in a second" },
    { "-t --threads", OPTION_U32, AT(threads), 0, WORKERS_MAX, "N", NULL,
      "worker threads to measure; 0 = usable physical cores" },
    { "--boards", OPTION_FLAG, AT(boards), 0, 0, NULL, NULL, "a table of all boards" },
    { "--json", OPTION_FLAG, AT(json), 0, 0, NULL, NULL, "one JSON object" },
};

struct fit_job {
    struct flags flags;
    struct fit_input in;
    enum dtype type; /* of most weights */
    const char *type_name;
    const char *machine; /* how its figures are known */
    const struct fit_device *device;
    bool mixture;
    uint64_t expert_bytes, expert_params; /* of all experts */
    uint32_t expert_count, expert_used;
};

/* ---- the model ---- */

/* Bits of a weight, of the mixtures of formats that llama.cpp's names mean. */
static const struct {
    const char *name;
    enum dtype type;
    double bits;
} mixtures[] = {
    { "Q2_K_M", DTYPE_Q2_K, 3.0 },  { "Q3_K_S", DTYPE_Q3_K, 3.5 },  { "Q3_K_M", DTYPE_Q3_K, 3.9 },
    { "Q3_K_L", DTYPE_Q3_K, 4.27 }, { "Q4_K_S", DTYPE_Q4_K, 4.58 }, { "Q4_K_M", DTYPE_Q4_K, 4.85 },
    { "Q5_K_S", DTYPE_Q5_K, 5.54 }, { "Q5_K_M", DTYPE_Q5_K, 5.69 },
};

static bool find_type(const char *name, enum dtype *type, double *bits)
{
    for (size_t i = 0; i < sizeof mixtures / sizeof mixtures[0]; i++) {
        if (strcmp(name, mixtures[i].name) != 0)
            continue;
        *type = mixtures[i].type;
        *bits = mixtures[i].bits;
        return true;
    }
    for (uint32_t number = 0; number < DTYPE_COUNT; number++) {
        const struct dtype_info *info = dtype_find(number);
        if (info == NULL || strcmp(name, info->name) != 0)
            continue;
        *type = (enum dtype)number;
        *bits = 8.0 * (double)info->block_bytes / (double)info->block_elems;
        return true;
    }
    return false;
}

/* 1.1B, 350M, 7000000000. */
static bool parse_params(const char *text, double *out)
{
    struct str s = str_of(text);
    double unit = 1;
    if (s.len > 1) {
        char last = s.text[s.len - 1];
        unit = last == 'B' || last == 'b' || last == 'G' ? 1e9
               : last == 'M' || last == 'm'              ? 1e6
                                                         : 1;
        s.len -= unit > 1;
    }
    if (!str_parse_f64(s, 0, 1e15, out))
        return false;
    *out *= unit;
    return *out >= 1 && *out <= 1e15;
}

static enum rc take_numbers(struct fit_job *j, struct fault *fault)
{
    const struct flags *f = &j->flags;
    double params = 0, bits = 0;
    if (f->params == NULL || f->type == NULL || f->layers == 0 || f->kv_heads == 0 ||
        f->head_dim == 0)
        return fault_set(fault, RC_USAGE,
                         "a MODEL, or all of --params --layers --kv-heads --head-dim --type");
    if (!parse_params(f->params, &params))
        return fault_set(fault, RC_USAGE, "--params takes a number such as 1.1B, not '%.40s'",
                         f->params);
    if (!find_type(f->type, &j->type, &bits))
        return fault_set(fault, RC_USAGE, "--type takes a format such as Q4_K or Q8_0, not '%.40s'",
                         f->type);
    j->type_name = f->type;
    j->in.params = (uint64_t)params;
    j->in.file_bytes = j->in.weight_bytes = (uint64_t)(params * bits / 8);
    j->in.layers = f->layers;
    j->in.kv_heads = f->kv_heads;
    j->in.head_dim = f->head_dim;
    j->in.scratch_bytes = SCRATCH_ASSUMED;
    j->in.ctx_tokens = f->ctx > 0 ? f->ctx : CTX_DEFAULT;
    return RC_OK;
}

/* Of a file the executor itself says what it needs. */
static enum rc measure_scratch(struct fit_job *j, const struct model *m, struct workers *w,
                               struct fault *fault)
{
    struct exec_cpu *exec;
    struct kv_types types = { (enum kv_type)j->flags.key_type, (enum kv_type)j->flags.value_type };
    size_t block_bytes;
    enum rc rc = exec_cpu_block_bytes(&block_bytes, m, types, fault);
    if (rc != RC_OK)
        return rc;
    struct exec_cpu_config config = { .rows_max = j->in.users + 128,
                                      .outputs_max = j->in.users,
                                      .ctx_max = j->in.ctx_tokens,
                                      .isa = cpu_isa(),
                                      .kv_types = types,
                                      .kv_block_bytes = block_bytes,
                                      .kv_block_count = 1 };
    rc = exec_cpu_open(&exec, m, w, &config, fault);
    if (rc != RC_OK)
        return rc;
    j->in.scratch_bytes = exec_cpu_scratch_bytes(exec);
    exec_cpu_close(exec);
    return RC_OK;
}

static uint64_t elements(const struct weight *w)
{
    return (uint64_t)w->rows * w->cols;
}

static void add_weights(struct fit_job *j, const struct model *m)
{
    j->in.params = elements(&m->output);
    for (uint32_t i = 0; i < m->layer_count; i++) {
        const struct model_layer *l = &m->layers[i];
        const struct weight *dense[] = { &l->q, &l->k, &l->v, &l->o, &l->router };
        const struct weight *feed[] = { &l->gate, &l->up, &l->down };
        for (size_t k = 0; k < sizeof dense / sizeof dense[0]; k++)
            j->in.params += dense[k]->data != NULL ? elements(dense[k]) : 0;
        for (size_t k = 0; k < sizeof feed / sizeof feed[0]; k++) {
            j->expert_params += m->expert_count * elements(feed[k]);
            j->expert_bytes += (uint64_t)m->expert_count * feed[k]->rows * feed[k]->row_bytes;
            j->in.params += elements(feed[k]) * (m->expert_count > 0 ? m->expert_used_count : 1);
        }
    }
    j->in.weight_bytes = m->weight_bytes;
    if (m->expert_count > 0) { /* a step reads what its rows choose: no two alike, at worst */
        double share = (double)j->in.users * m->expert_used_count / m->expert_count;
        if (share < 1)
            j->in.weight_bytes -= (uint64_t)((1 - share) * (double)j->expert_bytes);
    }
    j->type = m->layers[0].gate.type;
    j->type_name = dtype_find((uint32_t)j->type)->name;
}

static enum rc take_model(struct fit_job *j, const struct gguf *g, struct workers *w,
                          struct fault *fault)
{
    struct model *m;
    enum rc rc = model_open(&m, g, fault);
    if (rc != RC_OK)
        return rc;
    for (uint32_t i = 0; i < gguf_file_count(g); i++)
        j->in.file_bytes += gguf_file_bytes(g, i);
    j->in.layers = m->layer_count;
    j->in.kv_heads = m->kv_head_count;
    j->in.head_dim = m->head_dim;
    j->in.ctx_tokens = j->flags.ctx > 0                                 ? j->flags.ctx
                       : m->ctx_train > 0 && m->ctx_train < CTX_DEFAULT ? m->ctx_train
                                                                        : CTX_DEFAULT;
    add_weights(j, m);
    rc = measure_scratch(j, m, w, fault);
    model_close(m);
    return rc;
}

/* ---- the machine ---- */

static enum rc find_machine(struct fit_job *j, const struct gguf *g, struct workers *w,
                            struct fault *fault)
{
    const struct flags *f = &j->flags;
    struct fit_machine *m = &j->in.machine;
    struct budget budget;
    j->machine = "measured";
    if (j->device != NULL) {
        *m = j->device->machine;
        m->available_bytes = j->device->ram_bytes - fit_system_bytes(j->device->ram_bytes);
        j->machine = j->device->title;
    } else if (f->disk == 0 || f->memory == 0 || f->macs == 0) {
        if (fit_measure_cores(m, w, j->type) != RC_OK)
            return fault_set(fault, RC_NO_MEMORY, "out of memory");
        m->disk_bytes_s = g != NULL ? fit_measure_disk(g) : 0;
        if (m->disk_bytes_s == 0) {
            m->disk_bytes_s = DISK_ASSUMED;
            j->machine = "measured, but the disk's speed is assumed";
        }
    }
    budget_read(&budget, "");
    if (j->device == NULL)
        m->available_bytes = budget.available_bytes;
    uint64_t kept = fit_system_bytes(f->ram);
    if (f->ram > 0)
        m->available_bytes = f->ram > kept ? f->ram - kept : 0;
    if (f->mem > 0)
        m->available_bytes = f->mem;
    m->disk_bytes_s = f->disk > 0 ? (double)f->disk : m->disk_bytes_s;
    m->memory_bytes_s = f->memory > 0 ? (double)f->memory : m->memory_bytes_s;
    m->macs_s = f->macs > 0 ? (double)f->macs : m->macs_s;
    return RC_OK;
}

/* ---- the answer ---- */

static const char *const verdicts[] = { "fits", "fits by streaming", "does not fit" };

/* Flags that make it fit, or fit better; the count of lines. */
static uint32_t advise(const struct fit_job *j, const struct fit_result *r,
                       char lines[ADVICE_MAX][80])
{
    const struct fit_input *in = &j->in;
    enum fit_verdict better = r->verdict == FIT_NOT ? FIT_STREAMED : FIT_WHOLE;
    uint32_t n = 0;
    snprintf(lines[n++], 80, "--mem %lluM -c %u -np %u",
             (unsigned long long)(in->machine.available_bytes >> 20), in->ctx_tokens, in->users);
    if (r->verdict == FIT_WHOLE)
        return n;
    if (r->verdict == FIT_NOT)
        n = 0;
    uint32_t ctx = fit_ctx(in, better), users = fit_users(in, better);
    if (ctx > 0 && ctx < in->ctx_tokens)
        snprintf(lines[n++], 80, "-c %u: %s", ctx, verdicts[better]);
    if (users > 0 && users < in->users)
        snprintf(lines[n++], 80, "-np %u: %s", users, verdicts[better]);
    for (uint32_t type = 1; type < 3; type++) {
        struct fit_input smaller = *in;
        struct fit_result result;
        smaller.key_bits = smaller.value_bits = kv_bits[type];
        fit_compute(&result, &smaller);
        if (result.verdict < r->verdict)
            snprintf(lines[n++], 80, "-ctk %s -ctv %s: %s", kv_names[type], kv_names[type],
                     verdicts[result.verdict]);
    }
    return n;
}

static double mib(uint64_t bytes)
{
    return (double)bytes / 1048576.0;
}

static bool print_text(const struct fit_job *j, const struct fit_result *r)
{
    const struct fit_input *in = &j->in;
    const struct fit_machine *m = &in->machine;
    char lines[ADVICE_MAX][80];
    uint32_t count = advise(j, r, lines);
    printf("model     %.2f G weights a token, %s, %.0f MiB; a step reads %.0f MiB of it\n",
           (double)in->params / 1e9, j->type_name, mib(in->file_bytes), mib(in->weight_bytes));
    printf("machine   %.0f MiB for quire; disk %.0f MB/s, memory %.1f GB/s, %.1f GMAC/s (%s)\n",
           mib(m->available_bytes), m->disk_bytes_s / 1e6, m->memory_bytes_s / 1e9, m->macs_s / 1e9,
           j->machine);
    printf("KV cache  %.2f KiB a token (%s, %s); %u tokens, %u user%s: %.0f MiB\n",
           (double)r->kv_token_bytes / 1024, kv_names[j->flags.key_type],
           kv_names[j->flags.value_type], in->ctx_tokens, in->users, in->users == 1 ? "" : "s",
           mib(r->kv_bytes));
    printf("others    scratch %.0f MiB, buffers for reading %.0f MiB, margin %.0f MiB\n",
           mib(in->scratch_bytes), mib(r->slot_bytes), mib(r->margin_bytes));
    if (r->verdict != FIT_NOT)
        printf("weights   %.0f MiB kept, %.0f MiB read from disk in every step\n",
               mib(r->pinned_bytes), mib(r->streamed_bytes));
    if (r->verdict != FIT_NOT)
        printf("speed     %.3g tokens/s for one user, %.3g for %u (%s-bound)\n", r->tokens_s_one,
               r->tokens_s, in->users, r->bound);
    if (r->verdict == FIT_NOT)
        printf("verdict   does not fit: %.0f MiB are missing\n", mib(r->missing_bytes));
    else
        printf("verdict   %s\n", verdicts[r->verdict]);
    for (uint32_t i = 0; i < count; i++)
        printf("%s%s\n", i == 0 ? "flags     " : "          ", lines[i]);
    return !ferror(stdout);
}

static bool print_json(const struct fit_job *j, const struct fit_result *r)
{
    static const char *const words[] = { "fits", "streams", "does_not_fit" };
    const struct fit_input *in = &j->in;
    char lines[ADVICE_MAX][80];
    uint32_t count = advise(j, r, lines);
    json_t *flags = json_array();
    for (uint32_t i = 0; i < count; i++)
        json_array_append_new(flags, json_string(lines[i]));
    json_t *out = json_pack(
        "{s:s, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:f, s:f, s:f, s:s, s:o}",
        "verdict", words[r->verdict], "available_bytes", (json_int_t)in->machine.available_bytes,
        "file_bytes", (json_int_t)in->file_bytes, "weight_bytes_per_step",
        (json_int_t)in->weight_bytes, "pinned_bytes", (json_int_t)r->pinned_bytes,
        "read_bytes_per_step", (json_int_t)r->streamed_bytes, "kv_bytes_per_token",
        (json_int_t)r->kv_token_bytes, "kv_bytes", (json_int_t)r->kv_bytes, "scratch_bytes",
        (json_int_t)in->scratch_bytes, "buffer_bytes", (json_int_t)r->slot_bytes, "margin_bytes",
        (json_int_t)r->margin_bytes, "missing_bytes", (json_int_t)r->missing_bytes, "step_ms",
        r->step_s * 1e3, "tokens_per_s", r->tokens_s, "tokens_per_s_one", r->tokens_s_one, "bound",
        r->bound, "flags", flags);
    bool good = out != NULL && json_dumpf(out, stdout, JSON_COMPACT | JSON_REAL_PRECISION(7)) == 0;
    json_decref(out);
    return putchar('\n') != EOF && good;
}

/* One line for each board, as docs/boards.md has them. */
static bool print_boards(struct fit_job *j)
{
    printf("| board | for quire | weights kept | read a step | 1 user | %u users | verdict |\n"
           "|---|---|---|---|---|---|---|\n",
           j->in.users);
    const struct fit_device *d;
    for (size_t i = 0; (d = fit_device_at(i)) != NULL; i++) {
        struct fit_result r;
        j->in.machine = d->machine;
        j->in.machine.available_bytes = d->ram_bytes - fit_system_bytes(d->ram_bytes);
        fit_compute(&r, &j->in);
        if (r.verdict == FIT_NOT)
            printf("| %s | %.0f MiB | | | | | %s |\n", d->title, mib(j->in.machine.available_bytes),
                   verdicts[r.verdict]);
        else
            printf("| %s | %.0f MiB | %.0f MiB | %.0f MiB | %.3g t/s | %.3g t/s | %s |\n", d->title,
                   mib(j->in.machine.available_bytes), mib(r.pinned_bytes), mib(r.streamed_bytes),
                   r.tokens_s_one, r.tokens_s, verdicts[r.verdict]);
    }
    return !ferror(stdout);
}

static enum rc answer(struct fit_job *j, struct fault *fault)
{
    struct fit_result r = { .verdict = FIT_WHOLE };
    j->in.key_bits = kv_bits[j->flags.key_type];
    j->in.value_bits = kv_bits[j->flags.value_type];
    bool good = true;
    if (j->flags.boards) {
        good = print_boards(j);
    } else {
        fit_compute(&r, &j->in);
        good = j->flags.json ? print_json(j, &r) : print_text(j, &r);
    }
    if (!good || fflush(stdout) != 0)
        return fault_set(fault, RC_IO, "standard output cannot be written");
    return r.verdict == FIT_NOT ? RC_NO_FIT : RC_OK;
}

static enum rc run(struct fit_job *j, struct gguf **g, struct workers **w, struct fault *fault)
{
    const struct flags *f = &j->flags;
    struct cpus cpus;
    enum rc rc = cpus_read(&cpus, "");
    if (rc != RC_OK)
        return fault_set(fault, rc, "the usable CPUs cannot be read");
    if (f->device != NULL && (j->device = fit_device(f->device)) == NULL)
        return fault_set(fault, RC_USAGE, "--device '%.40s' is not known (quire help fit)",
                         f->device);
    rc = workers_open(w, f->threads > 0 ? f->threads : cpus.count, NULL, false, fault);
    if (rc == RC_OK && f->model != NULL) {
        rc = gguf_open(g, f->model, fault);
        if (rc == RC_IO || rc == RC_NOT_FOUND)
            rc = RC_CORRUPT;
    }
    j->in.users = f->users;
    if (rc == RC_OK)
        rc = *g != NULL ? take_model(j, *g, *w, fault) : take_numbers(j, fault);
    if (rc == RC_OK && !f->boards)
        rc = find_machine(j, *g, *w, fault);
    return rc == RC_OK ? answer(j, fault) : rc;
}

int cmd_fit(int argc, char **argv)
{
    struct fit_job j = { .flags = { .users = 1 } };
    struct fault fault = { .text = "" };
    const struct option_group group = { NULL, rows, sizeof rows / sizeof rows[0], &j.flags };
    struct option_set set = { .command = "fit",
                              .usage = "MODEL | --params N --layers N --kv-heads N --head-dim N "
                                       "--type NAME",
                              .purpose = "Says whether a model fits, how, and how fast it will be.",
                              .groups = &group,
                              .group_count = 1,
                              .operands = &j.flags.model,
                              .operand_max = 1 };
    int status = options_begin(&set, argc, argv);
    if (status >= 0)
        return status;
    struct gguf *g = NULL;
    struct workers *w = NULL;
    enum rc rc = run(&j, &g, &w, &fault);
    gguf_close(g);
    workers_close(w);
    if (rc != RC_OK && rc != RC_NO_FIT)
        fprintf(stderr, "quire fit: %s\n", fault.text);
    return rc_exit_status(rc);
}
