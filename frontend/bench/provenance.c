/* SPDX-License-Identifier: MIT */
/* provenance - see provenance.h. The command is written so that a shell takes it back, and so that
 * it is always one line of ASCII: words with anything unusual in them as $'...'. */
#include "frontend/bench/provenance.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "core/detok.h"
#include "frontend/engine_store.h"
#include "frontend/version.h"

static enum rc append_text(struct text *t, const char *text)
{
    return text_append(t, text, strlen(text));
}

static enum rc append_quoted(struct text *t, const char *word)
{
    enum rc rc = append_text(t, "$'");
    for (const char *c = word; *c != '\0' && rc == RC_OK; c++) {
        char piece[8];
        bool plain = *c >= ' ' && *c < 0x7f && *c != '\'' && *c != '\\';
        snprintf(piece, sizeof piece, plain ? "%c" : "\\x%02x", (unsigned char)*c);
        rc = append_text(t, piece);
    }
    return rc == RC_OK ? append_text(t, "'") : rc;
}

static bool is_simple(const char *word)
{
    static const char simple[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                                 "_./,:=+-@%";
    return word[0] != '\0' && word[strspn(word, simple)] == '\0';
}

static json_t *command_json(const struct provenance_words *words)
{
    struct text t = { 0 };
    enum rc rc = append_text(&t, "quire");
    for (int i = 0; i < words->argc && rc == RC_OK; i++) {
        rc = append_text(&t, " ");
        if (rc == RC_OK)
            rc = is_simple(words->argv[i]) ? append_text(&t, words->argv[i])
                                           : append_quoted(&t, words->argv[i]);
    }
    json_t *out = rc == RC_OK ? json_stringn(t.data, t.len) : NULL;
    text_close(&t);
    return out;
}

/* As the system calls it; boards call themselves, not their processor. */
static void read_cpu(char *out, size_t cap)
{
    char line[512];
    FILE *info = fopen("/proc/cpuinfo", "re");
    snprintf(out, cap, "unknown");
    while (info != NULL && fgets(line, sizeof line, info) != NULL) {
        char *value = strchr(line, ':');
        bool named = strncmp(line, "model name", 10) == 0 || strncmp(line, "Model\t", 6) == 0 ||
                     strncmp(line, "uarch", 5) == 0;
        if (value == NULL || !named)
            continue;
        snprintf(out, cap, "%.*s", (int)strcspn(value + 2, "\n"), value + 2);
        break;
    }
    if (info != NULL)
        fclose(info);
    for (char *c = out; *c != '\0'; c++)
        *c = *c >= ' ' && *c < 0x7f ? *c : '_';
}

static json_t *digest_json(struct engine *e)
{
    char text[40];
    if (e->weights.stream != NULL)
        return json_null();
    struct hash digest = engine_digest(e);
    snprintf(text, sizeof text, "%016" PRIx64 "%016" PRIx64, digest.a, digest.b);
    return json_string(text);
}

json_t *provenance_new(struct engine *e, const struct provenance_words *words)
{
    const struct engine_options *o = &e->options;
    char cpu[128], when[32] = "";
    uint64_t bytes = 0;
    time_t now = time(NULL);
    struct tm utc;
    if (gmtime_r(&now, &utc) != NULL)
        strftime(when, sizeof when, "%Y-%m-%dT%H:%M:%SZ", &utc);
    read_cpu(cpu, sizeof cpu);
    for (uint32_t i = 0; i < gguf_file_count(e->gguf); i++)
        bytes += gguf_file_bytes(e->gguf, i);
    return json_pack("{s:s, s:s, s:s, s:s, s:i, s:s, s:s, s:s, s:s, s:s, s:o, s:I, s:o}", "time",
                     when, "version", QUIRE_VERSION, "commit", quire_commit, "cpu", cpu, "threads",
                     (int)o->threads, "isa", isa_name(exec_cpu_isa(e->exec)), "act",
                     o->act == 0 ? "int8" : "f32", "kv_k", kv_type_name((enum kv_type)o->kv_type_k),
                     "kv_v", kv_type_name((enum kv_type)o->kv_type_v), "model", e->name,
                     "model_digest", digest_json(e), "model_bytes", (json_int_t)bytes, "command",
                     command_json(words));
}

static const char *text_of(const json_t *provenance, const char *name)
{
    const char *text = json_string_value(json_object_get(provenance, name));
    return text != NULL ? text : "none";
}

void provenance_print(const json_t *p)
{
    printf("\nquire %s, commit %s, %s\n%s, %" JSON_INTEGER_FORMAT
           " threads, %s, %s activations, cache %s %s\n%s, %" JSON_INTEGER_FORMAT
           " bytes, digest %s\n%s\n",
           text_of(p, "version"), text_of(p, "commit"), text_of(p, "time"), text_of(p, "cpu"),
           json_integer_value(json_object_get(p, "threads")), text_of(p, "isa"), text_of(p, "act"),
           text_of(p, "kv_k"), text_of(p, "kv_v"), text_of(p, "model"),
           json_integer_value(json_object_get(p, "model_bytes")), text_of(p, "model_digest"),
           text_of(p, "command"));
}
