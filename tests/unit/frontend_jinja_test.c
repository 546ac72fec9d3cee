/* SPDX-License-Identifier: MIT */
/* Tests of frontend/jinja: small templates with the answers of Jinja2 (data/jinja/cases.jsonl, its
 * first line holds the variables), the templates of real models (golden), limits, the origin of
 * every byte, mutated templates, and memory that runs out. */
#include "tests/unit/test.h"

#include <jansson.h>

#include "core/clock.h"
#include "core/limits.h"
#include "core/mem.h"
#include "core/rng.h"
#include "core/str.h"
#include "frontend/jinja/jinja.h"
#include "tests/unit/golden.h"

#define LEN_OF(array) (sizeof(array) / sizeof(array)[0])
#define VARIABLES_MAX 40u
#define CASES "tests/unit/data/jinja/cases.jsonl"

static void a_friday(void *ctx, struct tm *out)
{
    (void)ctx; /* 2024-07-26 09:05:03 */
    *out = (struct tm){ .tm_year = 124,
                        .tm_mon = 6,
                        .tm_mday = 26,
                        .tm_hour = 9,
                        .tm_min = 5,
                        .tm_sec = 3,
                        .tm_wday = 5,
                        .tm_yday = 207 };
}

static struct jinja_options options(void)
{
    struct jinja_options o = jinja_options_default();
    o.calendar.now = a_friday;
    return o;
}

struct result {
    enum rc rc;
    struct fault fault;
    struct jinja_output out;
};

static struct result render(const char *source, size_t len, json_t *vars,
                            const struct jinja_options *o)
{
    struct result r = { 0 };
    struct jinja *j;
    struct jinja_variable v[VARIABLES_MAX];
    size_t count = 0;
    const char *name;
    json_t *value;
    json_object_foreach(vars, name, value)
    {
        assert_true(count < VARIABLES_MAX);
        v[count++] = (struct jinja_variable){ name, value, false };
    }
    r.rc = jinja_open(&j, source, len, &r.fault);
    if (r.rc == RC_OK)
        r.rc = jinja_render(&r.out, j, v, count, o, &r.fault);
    jinja_close(j);
    return r;
}

static struct result render_text(const char *source)
{
    struct jinja_options o = options();
    return render(source, strlen(source), NULL, &o);
}

static json_t *parse(const char *text, size_t len)
{
    json_error_t error;
    json_t *j = json_loadb(text, len, JSON_ALLOW_NUL, &error);
    if (j == NULL)
        fail_msg("%s", error.text);
    return j;
}

static char *read_file(const char *path, size_t *bytes)
{
    FILE *f = fopen(path, "rb");
    if (f == NULL)
        fail_msg("cannot open %s", path);
    fseek(f, 0, SEEK_END);
    *bytes = (size_t)ftell(f);
    rewind(f);
    char *text = malloc(*bytes + 1);
    assert_non_null(text);
    assert_int_equal(fread(text, 1, *bytes, f), *bytes);
    text[*bytes] = '\0';
    fclose(f);
    return text;
}

/* Whether a row's output or error is what came out; says what is different. */
static bool is_right(json_t *row, const struct result *r, const char *name)
{
    json_t *output = json_object_get(row, "output"), *error = json_object_get(row, "error");
    if (error != NULL && r->rc != RC_OK && strstr(r->fault.text, json_string_value(error)) != NULL)
        return true;
    if (output != NULL && r->rc == RC_OK && json_string_length(output) == r->out.len &&
        memcmp(json_string_value(output), r->out.text, r->out.len) == 0)
        return true;
    print_error("%s\n  wanted: %s\n  got:    %s\n", name,
                json_string_value(output != NULL ? output : error),
                r->rc == RC_OK ? r->out.text : r->fault.text);
    return false;
}

/* Spans cover the text in order, and neighbours differ. */
static void check_spans(const struct jinja_output *o)
{
    size_t begin = 0;
    for (size_t i = 0; i < o->span_count; i++) {
        assert_true(o->spans[i].end > begin);
        if (i > 0)
            assert_true(o->spans[i].user != o->spans[i - 1].user);
        begin = o->spans[i].end;
    }
    assert_int_equal(begin, o->len);
}

static void test_cases_of_the_language(void **state)
{
    (void)state;
    size_t bytes, wrong = 0, count = 0;
    char *text = read_file(CASES, &bytes);
    struct str rest = { text, bytes }, line;
    struct jinja_options o = options();
    assert_true(str_cut(&rest, '\n', &line));
    json_t *head = parse(line.text, line.len), *vars = json_object_get(head, "vars");
    while (str_cut(&rest, '\n', &line) && line.len > 0) {
        json_t *row = parse(line.text, line.len), *source = json_object_get(row, "source");
        struct result r = render(json_string_value(source), json_string_length(source), vars, &o);
        wrong += !is_right(row, &r, json_string_value(source));
        if (r.rc == RC_OK)
            check_spans(&r.out);
        count++;
        jinja_output_close(&r.out);
        json_decref(row);
    }
    json_decref(head);
    free(text);
    assert_true(count > 1000);
    assert_int_equal(wrong, 0);
}

static void test_golden_templates(void **state)
{
    (void)state;
    size_t bytes, wrong = 0, count = 0;
    char *text = (char *)golden_read("templates/cases.jsonl", &bytes);
    if (text == NULL)
        skip(); /* templates of real models are not here */
    struct str rest = { text, bytes }, line;
    struct jinja_options o = options();
    while (str_cut(&rest, '\n', &line) && line.len > 0) {
        json_t *row = parse(line.text, line.len);
        const char *template = json_string_value(json_object_get(row, "template"));
        char name[300];
        size_t source_len;
        snprintf(name, sizeof name, "templates/%s", template);
        char *source = (char *)golden_read(name, &source_len);
        assert_non_null(source);
        struct result r = render(source, source_len, json_object_get(row, "vars"), &o);
        snprintf(name, sizeof name, "%s, %s", template,
                 json_string_value(json_object_get(row, "case")));
        wrong += !is_right(row, &r, name);
        count++;
        jinja_output_close(&r.out);
        free(source);
        json_decref(row);
    }
    free(text);
    assert_true(count > 0);
    assert_int_equal(wrong, 0);
}

/* --- limits --- */

static void expect_failure(const char *source, enum rc rc, const char *part)
{
    struct result r = render_text(source);
    if (r.rc != rc || strstr(r.fault.text, part) == NULL)
        fail_msg("%.80s: %s (%s), wanted %s", source, r.fault.text, rc_text(r.rc), part);
    assert_null(r.out.text);
}

static void test_limits_of_work(void **state)
{
    (void)state;
    expect_failure("{% for i in range(10**9) %}x{% endfor %}", RC_INVALID, "Range too big");
    expect_failure("{% for i in range(99999) %}{% for k in range(99999) %}{% endfor %}{% endfor %}",
                   RC_LIMIT, "steps");
    expect_failure("{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}", RC_LIMIT,
                   "inside each other");
    expect_failure("{% for x in [1] recursive %}{{ loop([1]) }}{% endfor %}", RC_LIMIT,
                   "inside each other");
    expect_failure("{{ ('a' * 1000000).strip('b' * 1000000 ~ 'a') }}", RC_LIMIT, "steps");
    expect_failure("{{ ('a' * 1000000).rfind('a' * 500000 ~ 'b') ~ range(99999)|batch(10**9, 1) }}",
                   RC_LIMIT, "steps");
    expect_failure("{{ [[[[[[[[[[1]]]]]]]]]]|map('map', 'map', 'map', 'map', 'map', 'map', 'map', "
                   "'map', 'map', 'list')|list }}",
                   RC_LIMIT, "filters inside filters");
}

/* Digits of floats take long: a loop over them ends far earlier than one over nothing. */
static void test_limits_of_digits(void **state)
{
    (void)state;
    static const char *const uses[] = {
        "1e300|round(5)",       "'%.99f'|format(1e300)",     "'{:.99f}'.format(1e300)",
        "1e300|filesizeformat", "[1.1, 1.1, 1.1, 1.1]|join", "{1.1: 1.1, 2.2: 2.2}|tojson"
    };
    char source[200];
    struct result r =
        render_text("{% for i in range(70000) %}{% set x = 1.1 * i %}{% endfor %}{{ 1 }}");
    assert_int_equal(r.rc, RC_OK);
    assert_true(r.out.steps < TEMPLATE_STEPS_MAX / 16);
    jinja_output_close(&r.out);
    for (size_t i = 0; i < LEN_OF(uses); i++) {
        snprintf(source, sizeof source,
                 "{%% for i in range(70000) %%}{%% set x = %s %%}{%% endfor %%}", uses[i]);
        expect_failure(source, RC_LIMIT, "steps");
    }
}

static void test_limits_of_memory(void **state)
{
    (void)state;
    static const char *const sources[] = {
        "{{ 'a' * 10**9 }}",
        "{{ 'a' * 10**18 }}",
        "{{ 'a'|center(10**9) }}",
        "{{ '%1000000000d' % 1 }}",
        "{{ '{:1000000000}'.format(1) }}",
        "{{ '1'.zfill(10**10) }}",
        "{{ '\t'.expandtabs(10**9) }}",
        "{{ [[1]]|tojson(indent=10**9) }}",
        "{{ [1] * 10**9 }}",
        "{{ ('a' * 100000).replace('a', 'b' * 100000) }}",
        "{{ (['a' * 1000000] * 1000)|join }}",
        "{% set n = namespace(s='ab') %}{% for i in range(99) %}{% set n.s = n.s ~ n.s %}{% endfor "
        "%}",
        "{% set n = namespace(l=[1]) %}{% for i in range(99) %}{% set n.l = n.l + n.l %}{% endfor "
        "%}",
    };
    for (size_t i = 0; i < LEN_OF(sources); i++)
        expect_failure(sources[i], RC_LIMIT, "limit");
}

static void test_limits_of_nesting(void **state)
{
    (void)state;
    static const char grow[] = "{% set n = namespace(l=[], m=[]) %}{% for i in range(5000) %}"
                               "{% set n.l = [n.l] %}{% set n.m = [n.m] %}{% endfor %}";
    static const char *const uses[] = { "{{ n.l }}", "{{ n.l|tojson }}", "{{ n.l == n.m }}",
                                        "{{ n.l < n.m }}", "{% set n.x = n %}{{ n }}" };
    char source[400];
    for (size_t i = 0; i < LEN_OF(uses); i++) {
        snprintf(source, sizeof source, "%s%s", grow, uses[i]);
        expect_failure(source, RC_LIMIT, "nested over");
    }
}

/* open, open, .. middle close, close, ..: far deeper than any limit. */
static void expect_too_deep(const char *open, const char *middle, const char *close)
{
    size_t count = 5000, len = count * (strlen(open) + strlen(close)) + strlen(middle) + 16;
    char *source = malloc(len), *p = source;
    assert_non_null(source);
    bool block = open[0] == '{' && open[1] == '%';
    p += snprintf(p, 16, "%s", block ? "" : "{{ ");
    for (size_t i = 0; i < count; i++)
        p += snprintf(p, 64, "%s", open);
    p += snprintf(p, 64, "%s", middle);
    for (size_t i = 0; i < count; i++)
        p += snprintf(p, 64, "%s", close);
    snprintf(p, 16, "%s", block ? "" : " }}");
    expect_failure(source, RC_INVALID, "nested too deeply");
    free(source);
}

static void test_limits_of_the_parser(void **state)
{
    (void)state;
    expect_too_deep("(", "1", ")");
    expect_too_deep("[", "1", "]");
    expect_too_deep("{1: ", "1", "}");
    expect_too_deep("-", "1", "");
    expect_too_deep("not ", "1", "");
    expect_too_deep("1 if 1 else ", "1", "");
    expect_too_deep("{% if 1 %}", "", "{% endif %}");
    expect_too_deep("{% for i in [1] %}", "", "{% endfor %}");
    expect_too_deep("{% set x %}", "", "{% endset %}");
    expect_too_deep("{% macro m() %}", "", "{% endmacro %}");
}

static void test_limits_of_the_caller(void **state)
{
    (void)state;
    struct jinja_options o = options();
    static const char source[] = "{% for i in range(50) %}{{ i }},{% endfor %}";
    struct result r = render(source, strlen(source), NULL, &o);
    assert_int_equal(r.rc, RC_OK);
    assert_true(r.out.steps > 200 && r.out.steps < 2000);
    assert_true(r.out.memory_bytes > 0 && r.out.memory_bytes <= o.limits.memory_bytes);
    jinja_output_close(&r.out);
    o.limits.steps = 200;
    assert_int_equal(render(source, strlen(source), NULL, &o).rc, RC_LIMIT);
    o = options();
    o.limits.text_bytes = 100;
    assert_int_equal(render(source, strlen(source), NULL, &o).rc, RC_LIMIT);
    o = options();
    o.limits.memory_bytes = 1000;
    assert_int_equal(render(source, strlen(source), NULL, &o).rc, RC_LIMIT);
}

/* What joins a text again and again does not copy all of it each time. */
static void test_long_texts_piece_by_piece(void **state)
{
    (void)state;
    struct result r =
        render_text("{% set n = namespace(s='') %}{% for i in range(50000) %}"
                    "{% set n.s = n.s ~ 'abcdefgh' + '|' %}{% endfor %}{{ n.s|length }}"
                    "{% set a = n.s ~ 'x' %}{% set b = n.s ~ 'y' %}{{ a[-2:] ~ b[-2:] }}");
    assert_int_equal(r.rc, RC_OK);
    assert_string_equal(r.out.text, "450000|x|y");
    assert_true(r.out.steps < 2000000);
    jinja_output_close(&r.out);
}

static void test_errors_name_the_line(void **state)
{
    (void)state;
    expect_failure("a\n{{ x.y }}", RC_INVALID, "template line 2: UndefinedError: 'x' is undefined");
    expect_failure("\n\n{% if 1 %}\n{{ 1 + }}", RC_INVALID, "template line 4: TemplateSyntaxError");
    expect_failure("a\r\nb\r{{ raise_exception('no ' ~ 1) }}", RC_INVALID,
                   "template line 3: TemplateError: no 1");
    expect_failure("{% include 'x' %}", RC_UNSUPPORTED, "include");
    expect_failure("{% block x %}{% endblock %}", RC_UNSUPPORTED, "block");
    expect_failure("\xff", RC_INVALID, "UTF-8");
    char *large = malloc((1u << 20) + 1);
    assert_non_null(large);
    memset(large, 'a', (1u << 20) + 1);
    struct jinja *j;
    struct fault fault;
    assert_int_equal(jinja_open(&j, large, (1u << 20) + 1, &fault), RC_LIMIT);
    assert_null(j);
    free(large);
}

/* --- origins --- */

static const char *const roles[] = { "user", "system", NULL };

/* The output with what users wrote between < and >. */
static void expect_origins(const char *source, const char *vars, const char *wanted)
{
    char got[500];
    size_t n = 0, begin = 0;
    struct jinja_known known = { "role", roles };
    struct jinja_options o = options();
    o.known = &known;
    json_t *json = parse(vars, strlen(vars));
    struct result r = render(source, strlen(source), json, &o);
    if (r.rc != RC_OK)
        fail_msg("%s: %s", source, r.fault.text);
    check_spans(&r.out);
    for (size_t i = 0; i < r.out.span_count; i++) {
        const struct text_span *s = &r.out.spans[i];
        n += (size_t)snprintf(got + n, sizeof got - n, s->user ? "<%.*s>" : "%.*s",
                              (int)(s->end - begin), r.out.text + begin);
        begin = s->end;
    }
    if (strcmp(got, wanted) != 0)
        fail_msg("%s\n  wanted %s\n  got    %s", source, wanted, got);
    jinja_output_close(&r.out);
    json_decref(json);
}

static void test_origin_of_every_byte(void **state)
{
    (void)state;
    static const struct {
        const char *source, *wanted;
    } cases[] = {
        { "[start]{{ c }}[end]", "[start]<u s>[end]" },
        { "{{ '[' ~ c ~ ']' }}", "[<u s>]" },
        { "{{ '[' + c + ']' }}", "[<u s>]" },
        { "{{ ('[' ~ c ~ ']')|upper }}", "[<U S>]" },
        { "{{ ('[' ~ c ~ ']')[1:3] ~ '!' }}", "<u >!" },
        { "{{ ('[' ~ c ~ ']')[::-1] }}", "]<s u>[" },
        { "{{ (' ' ~ c ~ ' ')|trim }}", "<u s>" },
        { "{{ ('a' ~ c).split('u')|join('-') }}", "a-< s>" },
        { "{{ c.replace('u', 'x') }}", "x< s>" },
        { "{{ '[c]'.replace('c', c) }}", "[<u s>]" },
        { "{{ '%s!' % c }}{{ '%5s|' % c }}", "<u s>!  <u s>|" },
        { "{{ '{}-{}'.format(c, 1) }}", "<u s>-1" },
        { "{{ ['a', c]|join(', ') }}", "a, <u s>" },
        { "{{ c|tojson }}", "<\"u s\">" },
        { "{{ {'k': c}|tojson }}", "{\"k\": <\"u s\">}" },
        { "{{ o|tojson }}", "<{\"k\": \"v\", \"n\": >1<}>" },
        { "{{ o }}", "<{'k': 'v', 'n': >1<}>" },
        { "{% for k, v in o|items %}{{ k }}={{ v }};{% endfor %}", "<k>=<v>;<n>=1;" },
        { "{% set x %}[{{ c }}]{% endset %}{{ x }}", "[<u s>]" },
        { "{% macro m(a) %}[{{ a }}]{% endmacro %}{{ m(c)|lower }}", "[<u s>]" },
        { "{% filter upper %}[{{ c }}]{% endfilter %}", "[<U S>]" },
        { "{% for ch in '[' ~ c %}{{ ch }}{% endfor %}", "[<u s>" },
        { "{{ c|e }}{{ '<'|e }}", "<u s>&lt;" },
        { "{{ ('a\n' ~ c)|indent(2) }}", "a\n  <u s>" },
        { "{{ c.title() ~ c|capitalize ~ c.center(5) }}", "<U SU s> <u s> " },
        { "{{ p[0].text }}{{ p[1].text }}", "<[mark]>" },
        { "<{{ m.role }}>{{ m.content }}", "<user><hi>" },
        { "<{{ f.role }}>{{ f.content }}", "<<[x]>><hi>" },
        { "{{ m.content if m.role == 'user' }}", "<hi>" },
        { "{{ c|length }}{{ c|default('x') }}{{ zz|default('x') }}", "3<u s>x" },
        { "{{ c|string|safe|list|first }}", "<u>" },
        { "{{ strftime_now('%d') }}{{ (c ~ '%d')|length }}", "265" },
    };
    for (size_t i = 0; i < LEN_OF(cases); i++)
        expect_origins(cases[i].source,
                       "{\"c\": \"u s\", \"o\": {\"k\": \"v\", \"n\": 1},"
                       " \"p\": [{\"text\": \"[ma\"}, {\"text\": \"rk]\"}],"
                       " \"m\": {\"role\": \"user\", \"content\": \"hi\"},"
                       " \"f\": {\"role\": \"[x]\", \"content\": \"hi\"}}",
                       cases[i].wanted);
}

static void test_variables_trusted_and_unknown(void **state)
{
    (void)state;
    struct jinja *j;
    struct fault fault;
    struct jinja_options o = options();
    struct jinja_output out;
    static const char source[] = "{{ bos }}{{ text }}{{ range }}";
    json_t *bos = json_string("<s>"), *text = json_string("hi");
    struct jinja_variable v[] = { { "bos", bos, true },
                                  { "unused", text, false },
                                  { "text", text, false },
                                  { "range", text, false } };
    assert_int_equal(jinja_open(&j, source, strlen(source), &fault), RC_OK);
    assert_true(jinja_names(j, "bos"));
    assert_false(jinja_names(j, "unused"));
    assert_int_equal(jinja_render(&out, j, v, LEN_OF(v), &o, &fault), RC_OK);
    assert_string_equal(out.text, "<s>hihi");
    assert_int_equal(out.span_count, 2);
    assert_int_equal(out.spans[0].end, 3);
    assert_false(out.spans[0].user);
    jinja_output_close(&out);
    jinja_close(j);
    json_decref(bos);
    json_decref(text);
}

static void test_variables_nested_too_deeply(void **state)
{
    (void)state;
    struct jinja_options o = options();
    json_t *inner = json_array(), *vars = json_object();
    for (int i = 0; i < 1000; i++) {
        json_t *outer = json_array();
        json_array_append_new(outer, inner);
        inner = outer;
    }
    json_object_set_new(vars, "v", inner);
    struct result r = render("{{ v }}", 7, vars, &o);
    assert_int_equal(r.rc, RC_LIMIT);
    assert_non_null(strstr(r.fault.text, "nested"));
    json_decref(vars);
}

/* --- broken input, broken memory --- */

/* Pieces of two templates with a few bytes changed. */
static size_t mutate(char *out, size_t cap, struct str a, struct str b, struct rng *rng)
{
    size_t cut = rng_below(rng, a.len + 1), from = rng_below(rng, b.len + 1);
    size_t n = 0;
    for (size_t i = 0; i < cut && n < cap; i++)
        out[n++] = a.text[i];
    for (size_t i = from; i < b.len && n < cap; i++)
        out[n++] = b.text[i];
    static const char bytes[] = "{}%#-+()[]|.,:'\"= \nx1~!*/<>";
    for (uint64_t k = rng_below(rng, 4); k > 0 && n > 0; k--)
        out[rng_below(rng, n)] = bytes[rng_below(rng, sizeof bytes - 1)];
    return n;
}

static void test_mutated_templates(void **state)
{
    (void)state;
    size_t bytes, count = 0, good = 0;
    char *text = read_file(CASES, &bytes), source[1000];
    struct str rest = { text, bytes }, line;
    json_t *rows[2000];
    struct jinja_options o = options();
    o.limits = (struct jinja_limits){ 20000, 1u << 20, 1u << 18, 20 };
    while (str_cut(&rest, '\n', &line) && line.len > 0 && count < LEN_OF(rows))
        rows[count++] = parse(line.text, line.len);
    json_t *vars = json_object_get(rows[0], "vars");
    struct rng rng = rng_seeded(11);
    for (int i = 0; i < 6000; i++) {
        json_t *a = json_object_get(rows[1 + rng_below(&rng, count - 1)], "source");
        json_t *b = json_object_get(rows[1 + rng_below(&rng, count - 1)], "source");
        size_t n = mutate(source, sizeof source,
                          (struct str){ json_string_value(a), json_string_length(a) },
                          (struct str){ json_string_value(b), json_string_length(b) }, &rng);
        struct result r = render(source, n, vars, &o);
        if (r.rc == RC_OK) {
            good++;
            check_spans(&r.out);
            assert_true(utf8_valid(r.out.text, r.out.len));
        } else {
            assert_true(r.fault.text[0] != '\0' && r.fault.code == r.rc);
            assert_null(r.out.text);
        }
        jinja_output_close(&r.out);
    }
    assert_true(good > 500 && good < 5500); /* both ways were really tried */
    for (size_t i = 0; i < count; i++)
        json_decref(rows[i]);
    free(text);
}

/* Each allocation fails in turn: an error, and nothing is left behind. */
static void test_memory_runs_out(void **state)
{
    (void)state;
    static const char source[] =
        "{% macro m(a, b=2) %}[{{ a ~ b }}]{% endmacro %}{% for k, v in d|dictsort %}{{ m(k) }}"
        "{{ v|tojson(indent=1) }}{% endfor %}{{ ('x' * 100000)|length }}";
    static const char vars[] = "{\"d\": {\"b\": [1, {\"c\": 2.5}], \"a\": \"text\"}}";
    struct jinja_options o = options();
    json_t *json = parse(vars, strlen(vars));
    size_t before = mem_live_bytes();
    uint64_t n = 1;
    for (;; n++) {
        mem_fail_after(n);
        struct result r = render(source, strlen(source), json, &o);
        mem_fail_after(0);
        if (r.rc == RC_OK) {
            jinja_output_close(&r.out);
            break;
        }
        assert_int_equal(r.rc, RC_NO_MEMORY);
        assert_true(r.fault.text[0] != '\0');
        assert_int_equal(mem_live_bytes(), before);
    }
    assert_true(n > 5);
    assert_int_equal(mem_live_bytes(), before);
    json_decref(json);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cases_of_the_language),
        cmocka_unit_test(test_golden_templates),
        cmocka_unit_test(test_limits_of_work),
        cmocka_unit_test(test_limits_of_digits),
        cmocka_unit_test(test_limits_of_memory),
        cmocka_unit_test(test_limits_of_nesting),
        cmocka_unit_test(test_limits_of_the_parser),
        cmocka_unit_test(test_limits_of_the_caller),
        cmocka_unit_test(test_long_texts_piece_by_piece),
        cmocka_unit_test(test_errors_name_the_line),
        cmocka_unit_test(test_origin_of_every_byte),
        cmocka_unit_test(test_variables_trusted_and_unknown),
        cmocka_unit_test(test_variables_nested_too_deeply),
        cmocka_unit_test(test_mutated_templates),
        cmocka_unit_test(test_memory_runs_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
