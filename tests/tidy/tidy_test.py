#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Checks the rules of docs/STYLE.md that a program can check, and prints TAP.

  tests/tidy/tidy_test.py           one test a rule, then one self-test a rule with planted faults
  tests/tidy/tidy_test.py --lower   write smaller counts to ratchet.txt, never larger ones

A rule is a function from a tree ({path: text}) to faults (path, line, message). Old faults of a
file are counted in ratchet.txt ("rule path count"): a count may fall, never rise, and new files
start at none.
"""
import os
import re
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
RATCHET = os.path.join(HERE, "ratchet.txt")

# Folder -> folders that its files may include from. bench and tests may include anything.
MAY_INCLUDE = {
    "core": {"core"},
    "kvpool": {"core", "kvpool"},
    "sched": {"core", "kvpool", "sched"},
    "kernels": {"core", "kernels"},
    "frontend": {"core", "kvpool", "sched", "kernels", "frontend"},
}
CODE_FOLDERS = list(MAY_INCLUDE) + ["bench", "tests"]
LINES_MAX, COLUMNS_MAX = 1000, 100
FUNCTION_MAX, KERNEL_MAX = 70, 120
TABLE_MARK = "tidy: table"  # in a file's first lines: a generated or plain table, any length

ALLOCATOR = ("malloc calloc realloc reallocarray free strdup strndup aligned_alloc posix_memalign "
             "asprintf vasprintf getline getdelim open_memstream").split()
BANNED = {  # call -> what to use
    "strcpy": "memcpy with a checked length", "strcat": "snprintf", "strncpy": "memcpy",
    "stpcpy": "memcpy", "sprintf": "snprintf", "vsprintf": "vsnprintf", "gets": "read",
    "atoi": "str_parse_u32", "atol": "str_parse_i64", "atoll": "str_parse_i64",
    "atof": "str_parse_f64", "strtok": "str_cut", "strtok_r": "str_cut", "alloca": "an arena",
    "setjmp": "a return code", "longjmp": "a return code", "assert": "must() or a return code",
    "rand": "core/rng.h", "srand": "core/rng.h", "random": "core/rng.h", "drand48": "core/rng.h",
    "tmpnam": "mkdtemp", "localtime": "localtime_r", "gmtime": "gmtime_r", "system": "posix_spawn",
}
CMOCKA_HEADER = "tests/unit/test.h"


def is_code(path):
    return path.endswith((".c", ".h"))


def is_script(path, text):
    return path.endswith((".py", ".sh")) or text.startswith("#!")


def folder(path):
    return path.split("/")[0]


def bare(text):
    """The code alone: comments, strings and character constants blanked, lines kept."""
    pattern = r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\''
    return re.sub(pattern, lambda m: re.sub(r"[^\n]", " ", m.group(0)), text, flags=re.S)


def lines_of(tree, wanted):
    for path in sorted(tree):
        if wanted(path):
            for number, line in enumerate(tree[path].split("\n"), 1):
                yield path, number, line


def functions(text):
    """(name, line of its opening brace, lines of its body, body) of each function definition."""
    lines = bare(text).split("\n")
    begin = None
    for i, line in enumerate(lines):
        if line.rstrip() == "{":
            head = "\n".join(lines[max(0, i - 8):i])
            head = re.split(r"[;}]|#.*\n", head)[-1]
            head = re.sub(r"\b(ATTR_\w+|__attribute__)\s*\(+[^)]*\)+", " ", head)
            name = re.findall(r"(\w+)\s*\(", head)
            begin = (name[0] if name else "?", i)
        elif line.startswith("}") and begin is not None:
            name, first = begin
            yield name, first + 1, i - first + 1, "\n".join(lines[first:i + 1])
            begin = None


def rule_include_direction(tree):
    for path, number, line in lines_of(tree, is_code):
        m = re.match(r'\s*#\s*include\s+"([^"]+)"', line)
        if not m:
            continue
        target = m.group(1)
        if "/" not in target or ".." in target or target not in tree:
            yield path, number, f'"{target}": name an existing header from the top of the tree'
        elif folder(target) not in MAY_INCLUDE.get(folder(path), set(CODE_FOLDERS)):
            yield path, number, f"{folder(path)} may not know {folder(target)} ({target})"


def rule_banned_calls(tree):
    calls = re.compile(r"(?<![\w.>])(%s)\s*\(" % "|".join(ALLOCATOR + list(BANNED)))
    for path in filter(is_code, sorted(tree)):
        for number, line in enumerate(bare(tree[path]).split("\n"), 1):
            for name in calls.findall(line):
                if name in ALLOCATOR:
                    if path != "core/mem.c" and folder(path) not in ("tests", "bench"):
                        yield path, number, f"{name}: only core/mem.c calls the allocator"
                elif path != CMOCKA_HEADER:
                    yield path, number, f"{name}: use {BANNED[name]}"
        for number, line in enumerate(tree[path].split("\n"), 1):
            m = re.match(r"\s*#\s*include\s+<(assert|setjmp|alloca)\.h>", line)
            if m and path != CMOCKA_HEADER:
                yield path, number, f"<{m.group(1)}.h> is not used here"


def rule_file_length(tree):
    for path in sorted(tree):
        count = tree[path].count("\n")
        table = any(TABLE_MARK in line for line in tree[path].split("\n")[:12])
        if (is_code(path) or is_script(path, tree[path])) and count > LINES_MAX and not table:
            yield path, count, f"{count} lines, at most {LINES_MAX}"


def rule_line_length(tree):
    def wanted(path):
        table = any(TABLE_MARK in line for line in tree[path].split("\n")[:12])
        return (is_code(path) or is_script(path, tree[path])) and not table
    for path, number, line in lines_of(tree, wanted):
        if len(line) > COLUMNS_MAX:
            yield path, number, f"{len(line)} columns, at most {COLUMNS_MAX}"


def rule_whitespace(tree):
    for path, number, line in lines_of(tree, lambda p: is_code(p) or is_script(p, tree[p])):
        if "\t" in line and not path.endswith("Makefile"):
            yield path, number, "a tab"
        if line != line.rstrip():
            yield path, number, "blanks at the end of the line"
    for path in sorted(tree):
        if tree[path] and (not tree[path].endswith("\n") or tree[path].endswith("\n\n")):
            if is_code(path) or is_script(path, tree[path]):
                yield path, tree[path].count("\n"), "must end with exactly one line end"


def rule_spdx(tree):
    mark = "SPDX-License-Identifier: MIT"
    for path in sorted(tree):
        head = tree[path].split("\n")[:2]
        if is_code(path) and head[0] != f"/* {mark} */":
            yield path, 1, f"first line must be /* {mark} */"
        if path.endswith("Makefile") and head[0] != f"# {mark}":
            yield path, 1, f"first line must be # {mark}"
        if is_script(path, tree[path]) and f"# {mark}" not in head:
            yield path, 1, f"line 1, or 2 after #!, must be # {mark}"


def rule_purpose(tree):
    for path in filter(is_code, sorted(tree)):
        lines = tree[path].split("\n")
        stem = re.sub(r"\.[ch]$", "", path.split("/")[-1])
        second = lines[1] if len(lines) > 1 else ""
        if stem.endswith("_test") and re.match(r"/\* \w.*\w", second):
            continue  # a program of tests: what they show
        if not re.match(r"/\* %s - \S" % re.escape(stem), second):
            yield path, 2, f"second line must begin /* {stem} - purpose"


def rule_include_guard(tree):
    for path in sorted(tree):
        if not path.endswith(".h"):
            continue
        guard = "QUIRE_" + re.sub(r"\W", "_", path).upper()
        text = bare(tree[path])
        if not re.search(r"^#ifndef %s\n#define %s\n" % (guard, guard), text, re.M):
            yield path, 1, f"include guard {guard} is missing"


def rule_readme(tree):
    for name in CODE_FOLDERS + ["docs"]:
        inside = [path for path in tree if path.startswith(name + "/")]
        if inside and name + "/README.md" not in tree:
            yield name, 1, "folder without a README.md"


def rule_dead_headers(tree):
    used = set()
    for path, _, line in lines_of(tree, is_code):
        m = re.match(r'\s*#\s*include\s+"([^"]+)"', line)
        if m and m.group(1)[:-2] != path[:-2]:
            used.add(m.group(1))
    for path in sorted(tree):
        if path.endswith(".h") and path not in used:
            yield path, 1, "nobody but its own .c includes this header"


def rule_unique_names(tree):
    seen = {}
    for path in filter(is_code, sorted(tree)):
        name = path.split("/")[-1]
        if name in seen:
            yield path, 1, f"same name as {seen[name]}"
        seen[name] = path


def rule_function_length(tree):
    for path in filter(is_code, sorted(tree)):
        most = KERNEL_MAX if path.startswith(("kernels/", "tests/kernels/")) else FUNCTION_MAX
        for name, line, count, _ in functions(tree[path]):
            if count > most:
                yield path, line, f"{name} has {count} lines, at most {most}"


def rule_recursion(tree):
    for path in filter(is_code, sorted(tree)):
        for name, line, _, body in functions(tree[path]):
            if re.search(r"(?<![\w.>])%s\s*\(" % re.escape(name), body):
                yield path, line, f"{name} calls itself"


def rule_typedef(tree):
    for path in filter(is_code, sorted(tree)):
        for number, line in enumerate(bare(tree[path]).split("\n"), 1):
            if re.match(r"\s*typedef\b", line) and "(" not in line:
                yield path, number, "only function types (and vectors) are typedef'd"


def rule_globals(tree):
    declared = re.compile(r"(static\s+)?"
                          r"((_Thread_local|_Atomic|atomic_\w+|volatile|struct|enum)\s+)*"
                          r"[a-z_]\w*\s[\s*]*\w+(\[[^]]*\])*\s*(=.*|;)$")
    for path in filter(is_code, sorted(tree)):
        if folder(path) in ("tests", "bench"):
            continue
        for number, line in enumerate(bare(tree[path]).split("\n"), 1):
            if re.match(r"(return|goto|typedef|extern|else)\b|(struct|enum|union) \w+;", line):
                continue
            if re.search(r"\bconst\b", line):
                continue
            if declared.match(line.rstrip()):
                yield path, number, "a variable outside functions that is not constant"


def rule_private_paths(tree):
    words = re.compile(r"(?<![\w.])/(%s)/" % "|".join(["wo" + "rk", "ro" + "ot", "ho" + "me"]))
    for path, number, line in lines_of(tree, lambda p: True):
        if words.search(line):
            yield path, number, "a path of somebody's own machine"


RULES = {name[5:].replace("_", "-"): rule
         for name, rule in list(globals().items()) if name.startswith("rule_")}

SPDX = "/* SPDX-License-Identifier: MIT */\n"
HEAD = SPDX + "/* %s - a purpose. */\n"
CODE = HEAD % "p"


def core(text, path="core/p.c"):
    """A tree of one planted file, in order but for `text`."""
    return {path: CODE + text}


def long_function(lines):
    return "void p_run(void)\n{\n%s}\n" % ("    work();\n" * (lines - 2))


CLEAN = {
    "core/README.md": "text\n",
    "kvpool/README.md": "text\n",
    "kernels/README.md": "text\n",
    "tests/README.md": "text\n",
    "core/a.h": HEAD % "a" + "#ifndef QUIRE_CORE_A_H\n#define QUIRE_CORE_A_H\n\n"
                "int a_get(void);\n\n#endif\n",
    "core/a.c": HEAD % "a" + '#include "core/a.h"\n\nstatic const int table[2] = { 1, 2 };\n\n'
                "int a_get(void)\n{\n    /* no malloc() and no assert() */\n"
                "    return table[0];\n}\n",
    "kvpool/b.c": HEAD % "b" + '#include "core/a.h"\n\n'
                  "int b_get(void)\n{\n    return a_get();\n}\n",
    "tests/x.py": "#!/usr/bin/env python3\n# SPDX-License-Identifier: MIT\nprint('free(p)')\n",
}
# rule -> planted trees, in each of which that rule must find something.
PLANTED = {
    "include-direction": [{"core/p.c": CODE + '#include "kvpool/q.h"\n', "kvpool/q.h": ""},
                          {"kernels/p.c": CODE + '#include "kvpool/q.h"\n', "kvpool/q.h": ""},
                          {"kvpool/p.c": CODE + '#include "kernels/q.h"\n', "kernels/q.h": ""},
                          {"sched/p.c": CODE + '#include "kernels/q.h"\n', "kernels/q.h": ""},
                          {"frontend/p.c": CODE + '#include "tests/q.h"\n', "tests/q.h": ""},
                          core('#include "a.h"\n'), core('#include "core/gone.h"\n')],
    "banned-calls": [core("    %s(x);\n" % name) for name in ALLOCATOR + list(BANNED)]
                    + [core("#include <assert.h>\n")],
    "file-length": [core("\n" * 1000), {"tests/p.py": "#\n" * 1001}],
    "line-length": [core("/* %s */\n" % ("x" * 95)), {"tests/p.py": "#" * 101 + "\n"}],
    "whitespace": [core("\tint x;\n"), core("int x; \n"), core("int x;"), core("\n\n")],
    "spdx": [{"core/p.c": "/* p - x */\n"}, {"tests/p.py": "#!/usr/bin/env python3\nprint()\n"},
             {"tests/p": "#!/bin/sh\n# text\n"}, {"Makefile": "all:\n"}],
    "purpose": [{"core/p.c": HEAD % "q"}, {"core/p.h": CODE.replace("p - a", "p a")},
                {"tests/unit/p_test.c": SPDX + "int x;\n"}],
    "include-guard": [core("", "core/p.h"),
                      core("#ifndef QUIRE_P_H\n#define QUIRE_P_H\n", "core/p.h"),
                      core("#ifndef QUIRE_CORE_P_H\n#define QUIRE_CORE_Q_H\n", "core/p.h")],
    "readme": [core("", "sched/p.c"), {"docs/p.md": "text\n"}],
    "dead-headers": [core("", "core/p.h"),
                     {"core/p.h": CODE, "core/p.c": CODE + '#include "core/p.h"\n'}],
    "unique-names": [{"sched/p.c": CODE, "core/p.c": CODE}, core("", "kvpool/a.h")],
    "function-length": [core(long_function(71)), core("ATTR_COLD " + long_function(71)),
                        core(long_function(121), "kernels/p.c")],
    "recursion": [core("#include <a.h>\nint p_run(int n)\n{\n    return p_run(n - 1);\n}\n"),
                  core("ATTR_PRINTF(1, 2) static int p_run(int n)\n{\n    p_run(0);\n}\n")],
    "typedef": [core("typedef struct p p;\n"), core("typedef int p_id;\n")],
    "globals": [core("static int count;\n"), core("struct p *first = NULL;\n"),
                core("static _Atomic uint64_t count;\n"), core("int cells[4] = {\n")],
    "private-paths": [core("/* see /%s/x */\n" % ("ro" + "ot")),
                      {"docs/p.md": "/%s/me/\n" % ("ho" + "me")}],
}
# Trees in which no rule may find anything, so that none is passed by finding everything.
INNOCENT = [
    core("int p_is_free(void);\n    x = p->free(1);\n    p_assert(x);\n    assert_true(x);\n"),
    core("#include <a.h>\nvoid p_run(void)\n{\n    if (p_x)\n        q_run(p_run_count);\n}\n"),
    core(long_function(70)),
    core(long_function(120), "kernels/p.c"),
    core("\n" * 997 + "int x(void);\n"),
    core("/* tidy: table */\n" + "int x(void);\n" * 2000),
    core("struct q;\ntypedef void p_fn(int);\nstruct p {\n    int count;\n};\n"),
    {"tests/unit/p_test.c": SPDX + "/* Tests of p. */\nstatic int count;\n    free(x);\n"},
]


def load():
    tree = {}
    for base, dirs, names in os.walk(ROOT):
        dirs[:] = sorted(d for d in dirs if d not in ("build", "models", "__pycache__")
                         and not (d.startswith(".") and d != ".ci"))
        for name in names:
            path = os.path.join(base, name)
            if name == ".git" or os.path.islink(path):
                continue
            try:
                with open(path, encoding="utf-8") as f:
                    tree[os.path.relpath(path, ROOT)] = f.read()
            except UnicodeDecodeError:
                continue  # binary test data
    return tree


def read_ratchet():
    counts = {}
    with open(RATCHET, encoding="utf-8") as f:
        for line in f:
            if line.strip() and not line.startswith("#"):
                rule, path, count = line.split()
                counts[rule, path] = int(count)
    return counts


def found_by_file(rule, tree):
    found = {}
    for path, line, message in RULES[rule](tree):
        found.setdefault(path, []).append((line, message))
    return found


def check_rule(rule, tree, ratchet):
    """Faults of files that have more of them than the ratchet allows."""
    return [f"{path}:{line}: {message}"
            for path, faults in found_by_file(rule, tree).items()
            if len(faults) > ratchet.get((rule, path), 0)
            for line, message in faults]


def self_test(rule, tree):
    problems = []
    for sample in [{}] + INNOCENT:
        found = check_rule(rule, {**CLEAN, **sample}, {})
        problems += ["found in a clean tree: " + fault for fault in found]
    before = {path: len(faults) for path, faults in found_by_file(rule, tree).items()}
    for files in PLANTED[rule]:
        if not check_rule(rule, {**CLEAN, **files}, {}):
            problems.append(f"not found: {files}")
    # The same in the real tree, whose folders have their README.
    files = PLANTED[rule][0]
    if rule != "readme":
        after = found_by_file(rule, {**tree, **files})
        if not any(len(faults) > before.get(path, 0) for path, faults in after.items()):
            problems.append(f"not found in the real tree: {files}")
    return problems


def lower(tree):
    ratchet = read_ratchet()
    with open(RATCHET, encoding="utf-8") as f:
        comment = [line for line in f if line.startswith("#")]
    with open(RATCHET, "w", encoding="utf-8") as f:
        f.writelines(comment)
        for (rule, path), most in sorted(ratchet.items()):
            count = min(most, len(found_by_file(rule, tree).get(path, [])))
            if count:
                f.write(f"{rule} {path} {count}\n")


def main():
    tree = load()
    if sys.argv[1:] == ["--lower"]:
        return lower(tree)
    ratchet = read_ratchet()
    tests = [("tidy " + rule, check_rule(rule, tree, ratchet)) for rule in RULES]
    tests += [("self-test " + rule, self_test(rule, tree)) for rule in RULES]
    print(f"1..{len(tests)}")
    for number, (name, problems) in enumerate(tests, 1):
        print(("not ok" if problems else "ok"), number, "-", name)
        for problem in problems:
            print("#   " + problem)
    return any(problems for _, problems in tests)


if __name__ == "__main__":
    sys.exit(main())
