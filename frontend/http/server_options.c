/* SPDX-License-Identifier: MIT */
/* server_options - the flags of `quire serve` that are about the network. */
#include "core/limits.h"
#include "core/log.h"
#include "frontend/http/server.h"

#define AT(member) offsetof(struct server_options, member)

static const char *const formats[] = { "text", "json", NULL };
static const char *const levels[] = { "error", "warn", "info", "debug", NULL };

const struct option server_option_rows[] = {
    { "--host", OPTION_TEXT, AT(host), 0, 0, "ADDRESS", NULL,
      "address or name to listen on; others than this machine's own need a key" },
    { "--port", OPTION_U32, AT(port), 0, 65535, "N", NULL, "port; 0 = any that is free" },
    { "--unix-socket", OPTION_TEXT, AT(unix_socket), 0, 0, "PATH", NULL,
      "listens on a socket of the file system instead" },
    { "--api-key", OPTION_TEXTS, AT(keys), 0, 0, "KEY", NULL,
      "requests must show it (Authorization: Bearer KEY, or X-Api-Key); may be repeated" },
    { "--api-key-file", OPTION_TEXT, AT(key_file), 0, 0, "FILE", NULL,
      "keys, one a line: KEY [TENANT [CLASS]]; tenants share the machine evenly, a class "
      "(interactive, normal, batch, spare) is the best that its requests may have" },
    { "--no-key", OPTION_FLAG, AT(open), 0, 0, NULL, NULL,
      "an address that others can reach may be used without a key" },
    { "--allow-host", OPTION_TEXTS, AT(hosts), 0, 0, "NAME", NULL,
      "a name that the Host field may have beside localhost; * = any; may be repeated" },
    { "--cors-origin", OPTION_TEXTS, AT(origins), 0, 0, "ORIGIN", NULL,
      "pages from there may use the server, as https://example.org; * = any; may be repeated" },
    { "-a --alias --served-model-name", OPTION_TEXT, AT(alias), 0, 0, "NAME", NULL,
      "what answers call the model; not given: the name of its file" },
    { "--strict-model", OPTION_FLAG, AT(strict_model), 0, 0, NULL, NULL,
      "a request that names another model gets a 404" },
    { "--queue", OPTION_U32, AT(queue), 0, REQUESTS_MAX / 2, "N", NULL,
      "requests that may wait beside those that run; more get a 429" },
    { "--max-connections", OPTION_U32, AT(connections), 1, 65536, "N", NULL,
      "connections at once; more wait to be accepted" },
    { "--max-body", OPTION_U64, AT(body_bytes), 1024, BODY_BYTES_MAX, "BYTES", NULL,
      "size of a request" },
    { "--ping-s", OPTION_U32, AT(ping_s), 0, 3600, "S", NULL,
      "a stream that is silent so long gets a comment, so that nobody gives up; 0 = never" },
    { "--idle-s", OPTION_U32, AT(idle_s), 1, 86400, "S", NULL,
      "a connection without a request is closed after that" },
    { "--read-s", OPTION_U32, AT(read_s), 1, 86400, "S", NULL,
      "time for a request to arrive as a whole" },
    { "--write-s", OPTION_U32, AT(write_s), 1, 86400, "S", NULL,
      "a client that reads nothing for so long is dropped" },
    { "--drain-s", OPTION_U32, AT(drain_s), 0, 86400, "S", NULL,
      "after SIGTERM: time for what runs to come to its end" },
    { "--half-close", OPTION_FLAG, AT(keep_half_closed), 0, 0, NULL, NULL,
      "a client that only stops sending still waits for its answer; else that cancels it" },
    { "--log-format", OPTION_CHOICE, AT(log_format), 0, 0, "KIND", formats,
      "lines of the log: text or json" },
    { "--log-level", OPTION_CHOICE, AT(log_level), 0, 0, "LEVEL", levels,
      "what is logged: error, warn, info or debug" },
};
const size_t server_option_count = sizeof server_option_rows / sizeof server_option_rows[0];

struct server_options server_options_default(void)
{
    return (struct server_options){ .host = "127.0.0.1",
                                    .port = 8080,
                                    .queue = 256,
                                    .connections = 1024,
                                    .body_bytes = 32u << 20,
                                    .ping_s = 15,
                                    .idle_s = 75,
                                    .read_s = 30,
                                    .write_s = 30,
                                    .drain_s = 60,
                                    .log_level = LOG_INFO };
}
