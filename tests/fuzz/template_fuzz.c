/* SPDX-License-Identifier: MIT */
/* template_fuzz - a model may carry any text as its chat template.
 * Each input is compiled and rendered once, over a value of every kind and a conversation with
 * tools. One that renders is then opened as a model's template is: some fifteen renders of probes,
 * and a conversation in the shape that the probes found. Few of the inputs come so far. */
#include <string.h>

#include "core/must.h"
#include "core/str.h"
#include "frontend/api/chat_template.h"

#define VARIABLES_MAX 32u

/* The names that tests/unit/data/jinja/cases.jsonl uses, so that its templates are good seeds. */
static const char values[] =
    "{\"s\":\"Hello World\",\"u\":\"Stra\u00dfe \u01c5 \u0391\u03a3\",\"e\":\"\",\"n\":5,\"f\":2.5,"
    "\"neg\":-7,\"z\":0,\"t\":true,\"no\":null,\"l\":[3,1,2],\"ls\":[\"b\",\"A\",\"c\"],"
    "\"d\":{\"b\":1,\"a\":\"x\",\"items\":[1],\"C\":null},\"nest\":{\"a\":{\"b\":[10,{\"c\":\"d\"}]"
    "}},"
    "\"msgs\":[{\"role\":\"user\",\"content\":\"hi\",\"n\":2},{\"role\":\"user\",\"content\":null}]"
    ","
    "\"ml\":\"line1\\n\\n  line2\\n\",\"q\":\"it's \\\"q\\\" <b>&\",\"uni\":\"\u65e5 \U0001f600\","
    "\"big\":1234567890123,\"fl\":[1.0,0.1,1e16,1e-5,-0.0],\"ws\":\" \\t x y  \\n\","
    "\"bos_token\":\"<s>\",\"eos_token\":\"</s>\",\"add_generation_prompt\":true}";

static const char conversation[] =
    "[{\"role\":\"system\",\"content\":\"be brief\"},"
    "{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"hi\"}]},"
    "{\"role\":\"assistant\",\"content\":null,\"tool_calls\":[{\"id\":\"c1\",\"type\":\"function\","
    "\"function\":{\"name\":\"f\",\"arguments\":\"{\\\"x\\\":[1,\\\"y\\\"]}\"}}]},"
    "{\"role\":\"tool\",\"tool_call_id\":\"c1\",\"content\":\"42\"}]";

static const char tool[] =
    "[{\"type\":\"function\",\"function\":{\"name\":\"f\",\"description\":\"d\",\"parameters\":"
    "{\"type\":\"object\",\"properties\":{\"x\":{\"type\":\"array\"}},\"required\":[\"x\"]}}}]";

static struct {
    json_t *values, *messages, *tools;
} given;

static void load(void)
{
    if (given.values != NULL)
        return;
    given.values = json_loads(values, 0, NULL);
    given.messages = json_loads(conversation, 0, NULL);
    given.tools = json_loads(tool, 0, NULL);
    must(given.values != NULL && given.messages != NULL && given.tools != NULL);
}

static struct jinja_options options(void)
{
    struct jinja_options o = jinja_options_default();
    o.limits = (struct jinja_limits){ 5000, 1u << 20, 1u << 16, 32 };
    return o;
}

/* Spans cover the text in order, neighbours differ, and what was a text is one. */
static void check_output(const struct jinja_output *o)
{
    size_t begin = 0;
    for (size_t i = 0; i < o->span_count; i++) {
        must(o->spans[i].end > begin);
        must(i == 0 || o->spans[i].user != o->spans[i - 1].user);
        begin = o->spans[i].end;
    }
    must(begin == o->len && o->text[o->len] == '\0');
}

/* Whether it renders. */
static bool try_alone(const char *source, size_t len)
{
    struct jinja_variable v[VARIABLES_MAX];
    struct jinja_options o = options();
    struct jinja *j;
    struct jinja_output out;
    struct fault fault = { .code = RC_OK };
    size_t count = 0;
    const char *name;
    json_t *value;
    if (jinja_open(&j, source, len, &fault) != RC_OK) {
        must(fault.code != RC_OK && fault.text[0] != '\0');
        return false;
    }
    json_object_foreach(given.values, name, value) v[count++] =
        (struct jinja_variable){ name, value, name[0] == 'b' };
    v[count++] = (struct jinja_variable){ "messages", given.messages, false };
    v[count++] = (struct jinja_variable){ "tools", given.tools, false };
    must(count <= VARIABLES_MAX);
    enum rc rc = jinja_render(&out, j, v, count, &o, &fault);
    if (rc == RC_OK)
        check_output(&out);
    else
        must(out.text == NULL && fault.code == rc && fault.text[0] != '\0');
    jinja_output_close(&out);
    jinja_close(j);
    return rc == RC_OK;
}

static void try_as_a_models(const char *source, size_t len)
{
    struct chat_template_config config = {
        .source = source, .source_len = len, .bos = "<s>", .eos = "</s>", .options = options()
    };
    struct chat_template *t;
    struct chat_prompt prompt;
    struct fault fault;
    must(chat_template_open(&t, &config, &fault) == RC_OK && !chat_template_is_fallback(t));
    struct chat_request request = { .messages = given.messages,
                                    .tools = given.tools,
                                    .add_generation_prompt = true };
    if (chat_template_render(&prompt, t, &request, &fault) == RC_OK) {
        check_output(&prompt.out);
        chat_prompt_close(&prompt);
    }
    chat_template_close(t);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    const char *source = (const char *)data;
    load();
    if (try_alone(source, len))
        try_as_a_models(source, len);
    return 0;
}
