/* SPDX-License-Identifier: MIT */
/* cmd_tokenize - `quire tokenize`: text to token ids and back, one text or one JSON string a line.
 * Ids come out exactly as the engine sees them; control tokens in the text are ordinary text
 * unless --special. A line of --jsonl that is no JSON string ends the command and is named. */
#include <fcntl.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "core/detok.h"
#include "core/gguf.h"
#include "core/limits.h"
#include "core/mem.h"
#include "core/str.h"
#include "core/tokenizer.h"
#include "frontend/commands.h"
#include "frontend/input.h"
#include "frontend/batch/line_reader.h"
#include "frontend/options.h"

struct flags {
    const char *model, *prompt, *file, *jsonl;
    bool bos, special, decode, ids;
};

static const struct option rows[] = {
    { "-m --model", OPTION_TEXT, offsetof(struct flags, model), 0, 0, "FILE", NULL,
      "GGUF file (the first of a split one)" },
    { "-p --prompt", OPTION_TEXT, offsetof(struct flags, prompt), 0, 0, "TEXT", NULL, "the text" },
    { "-f --file", OPTION_TEXT, offsetof(struct flags, file), 0, 0, "FILE", NULL,
      "read the text from FILE; - is standard input" },
    { "--jsonl", OPTION_TEXT, offsetof(struct flags, jsonl), 0, 0, "FILE", NULL,
      "read one JSON string a line, print one JSON array of ids a line; - is standard input" },
    { "--bos", OPTION_FLAG, offsetof(struct flags, bos), 0, 0, NULL, NULL,
      "add BOS (and EOS) where the vocabulary asks for it" },
    { "--special", OPTION_FLAG, offsetof(struct flags, special), 0, 0, NULL, NULL,
      "recognize control tokens in the text; with --decode, write them" },
    { "--ids", OPTION_FLAG, offsetof(struct flags, ids), 0, 0, NULL, NULL,
      "print one JSON array instead of a line for each token" },
    { "--decode", OPTION_FLAG, offsetof(struct flags, decode), 0, 0, NULL, NULL,
      "the other way: ids in (numbers, or JSON arrays with --jsonl), text out" },
};

struct job {
    const struct flags *flags;
    struct gguf *gguf;
    struct tokenizer *tokenizer;
    struct token_list list;
    struct text text;
};

static enum rc encode(struct job *j, const char *text, size_t len, struct fault *fault)
{
    unsigned flags =
        (j->flags->bos ? TOKENIZE_BOS : 0) | (j->flags->special ? TOKENIZE_SPECIAL : 0);
    j->list.count = 0;
    enum rc rc = tokenizer_encode(j->tokenizer, text, len, flags, &j->list);
    if (rc == RC_INVALID)
        return fault_set(fault, rc, "the vocabulary has no token for a character of the text");
    return rc == RC_OK ? rc : fault_set(fault, rc, "text of %zu bytes: %s", len, rc_text(rc));
}

static enum rc decode(struct job *j, struct fault *fault)
{
    struct detok d;
    detok_open(&d, j->tokenizer, false, j->flags->special);
    j->text.len = 0;
    enum rc rc = text_append(&j->text, "", 0);
    for (size_t i = 0; i < j->list.count && rc == RC_OK; i++)
        rc = detok_push(&d, j->list.ids[i], &j->text);
    if (rc == RC_OK)
        rc = detok_flush(&d, &j->text);
    return rc == RC_OK ? rc : fault_set(fault, rc, "%s", rc_text(rc));
}

static void print_array(const struct token_list *list)
{
    putchar('[');
    for (size_t i = 0; i < list->count; i++)
        printf(i == 0 ? "%d" : ",%d", list->ids[i]);
    puts("]");
}

/* A piece in quotes; bytes that are no printable character as \xNN. */
static void print_piece(const char *piece, size_t len)
{
    putchar('"');
    for (size_t i = 0; i < len;) {
        struct utf8_step step = utf8_decode(piece + i, len - i);
        bool plain = step.state == UTF8_OK && step.code >= 0x20 && step.code != 0x7f;
        for (size_t k = i; k < i + step.len; k++) {
            if (!plain)
                printf("\\x%02x", (unsigned char)piece[k]);
            else if (piece[k] == '"' || piece[k] == '\\')
                printf("\\%c", piece[k]);
            else
                putchar(piece[k]);
        }
        i += step.len;
    }
    puts("\"");
}

static enum rc print_pieces(struct job *j, struct fault *fault)
{
    for (size_t i = 0; i < j->list.count; i++) {
        int32_t id = j->list.ids[i];
        size_t len = tokenizer_piece(j->tokenizer, id, true, NULL, 0);
        char *piece = mem_alloc_raw(len);
        if (piece == NULL)
            return fault_set(fault, RC_NO_MEMORY, "no memory for a piece of %zu bytes", len);
        (void)tokenizer_piece(j->tokenizer, id, true, piece, len);
        printf("%7d  ", id);
        print_piece(piece, len);
        mem_free(piece);
    }
    return RC_OK;
}

static enum rc add_id(struct job *j, int64_t id, struct fault *fault)
{
    if (id < 0 || id >= tokenizer_vocab_count(j->tokenizer))
        return fault_set(fault, RC_INVALID, "%lld is no token id; the vocabulary has %u",
                         (long long)id, tokenizer_vocab_count(j->tokenizer));
    enum rc rc = token_list_push(&j->list, (int32_t)id);
    return rc == RC_OK ? rc : fault_set(fault, rc, "%s", rc_text(rc));
}

static enum rc read_ids(struct job *j, const char *text, size_t len, struct fault *fault)
{
    struct text all = { 0 };
    int32_t *ids = NULL;
    uint32_t count = 0;
    enum rc rc = text_append(&all, text, len);
    if (rc == RC_OK)
        rc = input_parse_ids(&ids, &count, &all, tokenizer_vocab_count(j->tokenizer), "--decode",
                             fault);
    else
        fault_set(fault, rc, "%s", rc_text(rc));
    j->list.count = 0;
    for (uint32_t i = 0; i < count && rc == RC_OK; i++)
        rc = add_id(j, ids[i], fault);
    mem_free(ids);
    text_close(&all);
    return rc;
}

static enum rc run_text(struct job *j, const char *text, size_t len, struct fault *fault)
{
    enum rc rc;
    if (j->flags->decode) {
        rc = read_ids(j, text, len, fault);
        if (rc == RC_OK)
            rc = decode(j, fault);
        if (rc == RC_OK)
            fwrite(j->text.data, 1, j->text.len, stdout);
        return rc;
    }
    rc = encode(j, text, len, fault);
    if (rc != RC_OK)
        return rc;
    if (!j->flags->ids)
        return print_pieces(j, fault);
    print_array(&j->list);
    return RC_OK;
}

static enum rc decode_json(struct job *j, const json_t *value, struct fault *fault)
{
    size_t index;
    json_t *item;
    j->list.count = 0;
    if (!json_is_array(value))
        return fault_set(fault, RC_INVALID, "not a JSON array of token ids");
    json_array_foreach(value, index, item)
    {
        enum rc rc = json_is_integer(item)
                         ? add_id(j, json_integer_value(item), fault)
                         : fault_set(fault, RC_INVALID, "element %zu is no token id", index);
        if (rc != RC_OK)
            return rc;
    }
    enum rc rc = decode(j, fault);
    if (rc != RC_OK)
        return rc;
    json_t *text = json_stringn(j->text.data, j->text.len);
    bool written = text != NULL && json_dumpf(text, stdout, JSON_ENCODE_ANY) == 0;
    json_decref(text);
    putchar('\n');
    return written ? RC_OK : fault_set(fault, RC_NO_MEMORY, "%s", rc_text(RC_NO_MEMORY));
}

static enum rc run_line(struct job *j, const char *line, size_t len, struct fault *fault)
{
    json_error_t error;
    json_t *value = json_loadb(line, len, JSON_DECODE_ANY | JSON_ALLOW_NUL, &error);
    enum rc rc;
    if (value == NULL) {
        rc = fault_set(fault, RC_INVALID, "%s at byte %d", error.text, error.position);
    } else if (j->flags->decode) {
        rc = decode_json(j, value, fault);
    } else if (!json_is_string(value)) {
        rc = fault_set(fault, RC_INVALID, "not a JSON string");
    } else {
        rc = encode(j, json_string_value(value), json_string_length(value), fault);
        if (rc == RC_OK)
            print_array(&j->list);
    }
    json_decref(value);
    return rc;
}

static enum rc run_lines(struct job *j, const char *path, struct fault *fault)
{
    int fd = strcmp(path, "-") == 0 ? dup(STDIN_FILENO) : open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return fault_set_errno(fault, RC_USAGE, "--jsonl %.100s cannot be opened", path);
    struct line_reader reader;
    line_reader_open(&reader, fd, BODY_BYTES_MAX);
    enum rc rc = RC_OK;
    while (rc == RC_OK) {
        const char *line;
        size_t len;
        bool whole;
        struct fault inner = { 0 };
        rc = line_reader_next(&reader, -1, &line, &len, &whole);
        if (rc == RC_OK)
            rc = run_line(j, line, len, &inner);
        else
            fault_set(&inner, rc, "%s", rc_text(rc));
        if (rc == RC_AGAIN)
            rc = RC_OK;
        else if (rc != RC_OK)
            fault_set(fault, rc, "%.60s line %llu: %s", strcmp(path, "-") == 0 ? "stdin" : path,
                      (unsigned long long)reader.line_number, inner.text);
    }
    line_reader_close(&reader);
    return rc == RC_END ? RC_OK : rc;
}

static enum rc run_input(struct job *j, struct fault *fault)
{
    const struct flags *f = j->flags;
    if (f->jsonl != NULL)
        return run_lines(j, f->jsonl, fault);
    if (f->prompt != NULL)
        return run_text(j, f->prompt, strlen(f->prompt), fault);
    struct text all = { 0 };
    enum rc rc = input_read(&all, f->file, "-f", fault);
    if (rc == RC_OK)
        rc = run_text(j, all.data, all.len, fault);
    text_close(&all);
    return rc;
}

static enum rc run_job(const struct flags *flags, struct fault *fault)
{
    struct job j = { .flags = flags };
    enum rc rc = gguf_open(&j.gguf, flags->model, fault);
    if (rc == RC_IO || rc == RC_NOT_FOUND) /* for the exit status a bad model */
        rc = fault->code = RC_CORRUPT;
    if (rc == RC_OK)
        rc = tokenizer_open(&j.tokenizer, j.gguf, fault);
    if (rc == RC_OK)
        rc = run_input(&j, fault);
    if ((fflush(stdout) != 0 || ferror(stdout)) && rc == RC_OK)
        rc = fault_set_errno(fault, RC_IO, "standard output");
    text_close(&j.text);
    token_list_close(&j.list);
    tokenizer_close(j.tokenizer);
    gguf_close(j.gguf);
    return rc;
}

int cmd_tokenize(int argc, char **argv)
{
    struct flags flags = { 0 };
    const struct option_group group = { "Flags", rows, sizeof rows / sizeof rows[0], &flags };
    const char *operand = NULL;
    struct option_set set = {
        .command = "tokenize",
        .usage = "-m MODEL {-p TEXT | -f FILE | --jsonl FILE | -} [FLAGS]",
        .purpose = "Shows how a model's vocabulary cuts text into tokens, and the way back.",
        .groups = &group,
        .group_count = 1,
        .operands = &operand,
        .operand_max = 1,
    };
    int status = options_begin(&set, argc, argv);
    if (status >= 0)
        return status;
    struct fault fault = { 0 };
    enum rc rc = RC_OK;
    if (operand != NULL && flags.file == NULL)
        flags.file = operand;
    int inputs = (flags.prompt != NULL) + (flags.file != NULL) + (flags.jsonl != NULL);
    if (flags.model == NULL)
        rc = fault_set(&fault, RC_USAGE, "-m MODEL is missing");
    else if (inputs != 1)
        rc = fault_set(&fault, RC_USAGE, "one of -p TEXT, -f FILE, --jsonl FILE and - is needed");
    else
        rc = run_job(&flags, &fault);
    if (rc != RC_OK)
        fprintf(stderr, "quire tokenize: %s\n", fault.text);
    return rc_exit_status(rc);
}
