/* SPDX-License-Identifier: MIT */
/* access - lists are walked to their end: the time of a comparison never tells how far it got. */
#include "frontend/http/access.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "core/detok.h"
#include "core/mem.h"
#include "frontend/http/http_head.h"
#include "frontend/input.h"

static bool is_key(struct str key)
{
    for (size_t i = 0; i < key.len; i++)
        if ((unsigned char)key.text[i] <= ' ' || (unsigned char)key.text[i] >= 0x7f)
            return false;
    return key.len > 0 && key.len <= ACCESS_KEY_BYTES_MAX;
}

/* FNV-1a: names become tenants, which are compared and nothing else. */
static uint64_t tenant_of(struct str name)
{
    uint64_t hash = 0xcbf29ce484222325u;
    for (size_t i = 0; i < name.len; i++)
        hash = (hash ^ (unsigned char)name.text[i]) * 0x100000001b3u;
    return hash != 0 ? hash : 1;
}

static enum rc add_key(struct access *a, struct str key, struct str tenant, enum priority priority,
                       struct fault *fault)
{
    if (!is_key(key))
        return fault_set(fault, RC_USAGE, "an API key has 1 to %u printable characters, no blanks",
                         ACCESS_KEY_BYTES_MAX);
    if (a->key_count == ACCESS_KEYS_MAX)
        return fault_set(fault, RC_USAGE, "at most %u API keys", ACCESS_KEYS_MAX);
    char *text = mem_copy_text(key.text, key.len);
    if (text == NULL)
        return fault_set(fault, RC_NO_MEMORY, "out of memory");
    a->keys[a->key_count++] =
        (struct access_key){ text, key.len, tenant_of(tenant.len > 0 ? tenant : key), priority };
    return RC_OK;
}

enum rc access_add_key(struct access *a, const char *key, struct fault *fault)
{
    return add_key(a, str_of(key), (struct str){ 0 }, PRIORITY_INTERACTIVE, fault);
}

/* The next word of a line. */
static struct str next_word(struct str *rest)
{
    struct str word = { 0 };
    while (word.len == 0 && str_cut(rest, ' ', &word))
        word = str_trim(word);
    return word;
}

static enum rc add_line(struct access *a, struct str line, uint32_t number, const char *path,
                        struct fault *fault)
{
    line = str_trim(line);
    if (line.len == 0 || line.text[0] == '#')
        return RC_OK;
    struct str key = next_word(&line), tenant = next_word(&line), class = next_word(&line);
    enum priority priority = PRIORITY_INTERACTIVE;
    if ((class.len > 0 && !priority_parse(class, &priority)) || next_word(&line).len > 0)
        return fault_set(fault, RC_USAGE,
                         "--api-key-file %.100s, line %u: KEY [TENANT [CLASS]], and a class is "
                         "interactive, normal, batch or spare",
                         path, number);
    return add_key(a, key, tenant, priority, fault);
}

enum rc access_read_keys(struct access *a, const char *path, struct fault *fault)
{
    struct text file = { 0 };
    enum rc rc = input_read(&file, path, "--api-key-file", fault);
    struct str rest = { file.data, file.len }, line;
    uint32_t number = 0, before = a->key_count;
    while (rc == RC_OK && str_cut(&rest, '\n', &line))
        rc = add_line(a, line, ++number, path, fault);
    text_close(&file);
    if (rc == RC_OK && a->key_count == before)
        rc = fault_set(fault, RC_USAGE, "--api-key-file %.100s has no keys", path);
    return rc;
}

void access_close(struct access *a)
{
    for (uint32_t i = 0; i < a->key_count; i++)
        mem_free(a->keys[i].text);
    *a = (struct access){ 0 };
}

/* All bytes of what was shown are looked at, whatever the key is. */
static uint32_t differs(const struct access_key *key, struct str shown)
{
    uint32_t bits = key->len != shown.len;
    for (size_t i = 0; i < shown.len; i++)
        bits |= (uint32_t)(unsigned char)key->text[i % key->len] ^ (unsigned char)shown.text[i];
    return bits;
}

uint32_t access_find_key(const struct access *a, struct str shown)
{
    uint32_t found = 0;
    if (shown.len == 0 || shown.len > ACCESS_KEY_BYTES_MAX)
        return 0;
    for (uint32_t i = 0; i < a->key_count; i++) {
        uint32_t equal = (uint32_t)(differs(&a->keys[i], shown) == 0);
        found |= (0u - equal) & (i + 1);
    }
    return found;
}

/* "name:80", "[::1]:80" and the like without the port. */
static struct str without_port(struct str host)
{
    size_t end = host.len;
    while (end > 0 && host.text[end - 1] >= '0' && host.text[end - 1] <= '9')
        end--;
    if (end > 0 && host.text[end - 1] == ':' && end < host.len)
        host.len = end - 1;
    return host;
}

static bool is_listed(const struct option_texts *list, struct str s)
{
    for (uint32_t i = 0; list != NULL && i < list->count; i++)
        if (strcmp(list->items[i], "*") == 0 || http_text_equal(s, list->items[i]))
            return true;
    return false;
}

static bool is_loopback_name(struct str name)
{
    struct str part;
    if (http_text_equal(name, "localhost") || http_text_equal(name, "[::1]") ||
        (name.len > 10 &&
         http_text_equal((struct str){ name.text + name.len - 10, 10 }, ".localhost")))
        return true;
    uint32_t number, count = 0;
    while (str_cut(&name, '.', &part)) /* 127.x.y.z and nothing else that begins so */
        if (!str_parse_u32(part, count == 0 ? 127 : 0, count == 0 ? 127 : 255, &number) ||
            ++count > 4)
            return false;
    return count == 4;
}

bool access_host_allowed(const struct access *a, struct str host)
{
    bool named = a->hosts != NULL && a->hosts->count > 0;
    if (host.len == 0 || (!a->loopback && !named))
        return true;
    struct str name = without_port(host);
    return (a->loopback && is_loopback_name(name)) || is_listed(a->hosts, name) ||
           is_listed(a->hosts, host);
}

enum access_origin access_origin_check(const struct access *a, struct str origin, struct str host)
{
    static const char *const schemes[] = { "http://", "https://" };
    for (size_t i = 0; i < sizeof schemes / sizeof schemes[0]; i++) {
        size_t len = strlen(schemes[i]);
        if (origin.len == len + host.len && host.len > 0 &&
            http_text_equal((struct str){ origin.text, len }, schemes[i]) &&
            memcmp(origin.text + len, host.text, host.len) == 0)
            return ORIGIN_OWN;
    }
    return is_listed(a->origins, origin) ? ORIGIN_ALLOWED : ORIGIN_REFUSED;
}
