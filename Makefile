# SPDX-License-Identifier: MIT
# quire: plain GNU make. `make help` lists the targets.
#   SAN=address,undefined | thread   sanitizers (libc malloc, slow checks on)
#   DEBUG=1                          -O1, slow checks on
#   TINY=1                           small limits, so that wrap and overflow paths run
#   COVER=1                          count executed lines (make cover)
#   CC=clang  V=1                    other compiler; show commands
#   CC=aarch64-linux-gnu-gcc         cross build: libraries from build/sysroot/aarch64 (tests/deps aarch64)
#   BARE=1                           kernels and core without any library (boards that lack them)
MAKEFLAGS += --no-builtin-rules
SHELL := /bin/sh
CC ?= cc
ifeq ($(origin CC),default)
CC := gcc
endif
V ?= 0
Q := $(if $(filter 1,$(V)),,@)
say = $(if $(filter 1,$(V)),,@printf '  %-6s %s\n' $(1) $(2))

comma := ,
empty :=
space := $(empty) $(empty)
CONFIG := $(if $(SAN),san-$(subst $(comma),-,$(SAN)),$(if $(filter 1,$(COVER)),cover,$(if $(filter 1,$(DEBUG)),debug,release)))$(if $(filter 1,$(TINY)),-tiny)
ifneq ($(notdir $(CC)),gcc)
CONFIG := $(CONFIG)-$(notdir $(CC))
endif
ifeq ($(BARE),1)
CONFIG := $(CONFIG)-bare
endif
B := build/$(CONFIG)
ARCH := $(firstword $(subst -, ,$(shell $(CC) -dumpmachine)))
CROSS := $(filter-out $(shell uname -m),$(ARCH))
ifneq ($(CROSS),)
SYSROOT := build/sysroot/$(ARCH)
PKG_CONFIG := PKG_CONFIG_SYSROOT_DIR=$(SYSROOT) PKG_CONFIG_LIBDIR=$(SYSROOT)/usr/lib/$(ARCH)-linux-gnu/pkgconfig pkg-config
else
PKG_CONFIG := pkg-config
endif

DEPS_BUILD := gcc make pkg-config libc6-dev libjemalloc-dev liburing-dev libjansson-dev libutf8proc-dev \
  zlib1g-dev libzstd-dev
DEPS_TEST := libcmocka-dev python3 python3-pip gnuplot-nox
JEMALLOC := $(if $(SAN)$(filter 1,$(BARE)),,jemalloc)
PKGS := $(if $(filter 1,$(BARE)),,jansson liburing libutf8proc zlib libzstd $(JEMALLOC))

# Everything but these needs the libraries' headers: say so once, instead of a compiler's first complaint.
WITHOUT_LIBS := help deps demo test model clean uninstall dist format cross
HAVE_LIBS := $(if $(PKGS),$(shell $(PKG_CONFIG) --exists $(PKGS) 2>/dev/null && echo yes),yes)
ifneq ($(HAVE_LIBS),yes)
ifneq ($(if $(MAKECMDGOALS),$(filter-out $(WITHOUT_LIBS),$(MAKECMDGOALS)),all),)
$(error libraries are missing ($(strip $(PKGS))): run `$(if $(CROSS),tests/deps $(ARCH),make deps)` once, then make again)
endif
endif
WARN := -Wall -Wextra -Wpedantic -Wconversion -Wno-sign-conversion -Wshadow -Wvla -Wundef \
	-Wstrict-prototypes -Wmissing-prototypes -Wold-style-definition -Wcast-qual -Wcast-align \
	-Wwrite-strings -Wpointer-arith -Wdouble-promotion -Wformat=2 -Wswitch-enum \
	-Wnull-dereference -Wimplicit-fallthrough
ifneq ($(findstring clang,$(CC)),)
WARN += -Wcomma -Wunreachable-code -Wthread-safety
else
WARN += -Wlogical-op -Wduplicated-cond -Wduplicated-branches
endif
ifeq ($(CI),true)
WARN += -Werror
endif

SLOW := $(if $(SAN)$(filter 1,$(DEBUG) $(COVER)),1,0)
CPPFLAGS += -I. -D_GNU_SOURCE -DQUIRE_JEMALLOC=$(if $(JEMALLOC),1,0) -DQUIRE_SLOW_CHECKS=$(SLOW) \
	-DQUIRE_PLAIN_LOOPS=$(if $(SAN),1,0) -DQUIRE_TINY=$(if $(filter 1,$(TINY)),1,0) $(if $(SAN),,-U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=2)
COVER_FLAGS := $(if $(filter 1,$(COVER)),--coverage -fprofile-update=atomic)
CFLAGS += -std=c17 $(if $(filter 1,$(DEBUG) $(COVER)),-O1,-O2) -g -pthread -ffp-contract=off -fno-math-errno \
	-fno-omit-frame-pointer -fno-common -fvisibility=hidden -fPIE -fstack-protector-strong \
	-ffile-prefix-map=$(CURDIR)=. $(if $(SAN),-fsanitize=$(SAN) -fno-sanitize-recover=all) $(COVER_FLAGS)
CPPFLAGS += $(if $(PKGS),$(patsubst -I%,-isystem %,$(shell $(PKG_CONFIG) --cflags $(PKGS) 2>/dev/null)))
LDFLAGS += -pie -pthread -Wl,-z,relro,-z,now $(if $(SAN),-fsanitize=$(SAN)) $(COVER_FLAGS)
LDLIBS += $(if $(PKGS),$(shell $(PKG_CONFIG) --libs $(PKGS) 2>/dev/null)) -lm
LDFLAGS += $(if $(CROSS),-Wl$(comma)-rpath-link=$(SYSROOT)/usr/lib/$(ARCH)-linux-gnu)

# One translation unit per instruction set, its flags chosen by the end of its name.
flags_avx2 := -mavx2 -mfma -mf16c
flags_avxvnni := $(flags_avx2) -mavxvnni
flags_avx512vnni := $(flags_avx2) -mavx512f -mavx512bw -mavx512dq -mavx512vl -mavx512vnni
flags_neon :=
flags_dotprod := -march=armv8.2-a+dotprod+fp16
flags_i8mm := -march=armv8.2-a+dotprod+fp16+i8mm
isa_flags = $(flags_$(lastword $(subst _, ,$(basename $(notdir $(1))))))

SRC := $(sort $(wildcard core/*.c kvpool/*.c sched/*.c kernels/*.c kernels/ref/*.c frontend/*.c frontend/*/*.c))
SRC += $(if $(filter x86_64,$(ARCH)),$(sort $(wildcard kernels/x86/*.c)))
SRC += $(if $(filter aarch64,$(ARCH)),$(sort $(wildcard kernels/arm/*.c)))
ifeq ($(BARE),1)
SRC := $(filter-out frontend/% sched/% kvpool/% core/unicode.c core/uring.c,$(SRC)) tests/bare/bare_uring.c
endif
LIB_SRC := $(filter-out frontend/main.c,$(SRC))
LIB_OBJ := $(LIB_SRC:%.c=$(B)/%.o)
MAIN_OBJ := $(B)/frontend/main.o
UNIT_ALL := $(patsubst %.c,$(B)/%,$(sort $(wildcard tests/unit/*_test.c tests/kernels/*_test.c tests/sim/*_test.c)))
UNIT_BIN := $(if $(K),$(foreach program,$(UNIT_ALL),$(if $(findstring $(K),$(program)),$(program))),$(UNIT_ALL))
HELPER_OBJ := $(patsubst %.c,$(B)/%.o,$(sort $(filter-out %_test.c,$(wildcard tests/unit/*.c tests/kernels/*.c tests/sim/*.c))))
HELPER_OBJ += $(if $(filter x86_64,$(ARCH)),$(patsubst %.c,$(B)/%.o,$(sort $(wildcard tests/kernels/x86/*.c))))
FIXTURE_OBJ := $(patsubst %.c,$(B)/%.o,$(sort $(wildcard tests/mkmodel/*.c)))
TOOL_BIN := $(patsubst %.c,$(B)/%,$(sort $(wildcard tests/tools/*.c bench/*.c)))

.PHONY: all help deps FORCE fuzz fuzz-run test test-run unit tools sim clean model demo cross build/quire \
	cover mutants analyze format install uninstall dist
.SECONDARY:
.DEFAULT_GOAL := all

all: build/quire  ## Build the release program at build/quire

help:  ## List the targets
	@awk -F':.*## ' '/^[a-z-]+:.*## /{printf "  %-10s %s\n",$$1,$$2}' Makefile

deps:  ## Install the Debian packages that building and testing need
	@tests/deps $(DEPS_BUILD) $(DEPS_TEST)

# The link is for users: release builds alone set it, and each of them does.
build/quire: $(B)/quire
	$(Q)$(if $(CROSS),,$(if $(filter release%,$(CONFIG)),ln -sfn $(CONFIG)/quire $@))

$(B)/libquire.a: $(LIB_OBJ)
	$(call say,AR,$@)
	$(Q)rm -f $@ && ar rcsD $@ $^

$(B)/quire: $(MAIN_OBJ) $(B)/libquire.a
	$(call say,LD,$@)
	$(Q)$(CC) $(LDFLAGS) -o $@ $^ $(LDLIBS)

# Known to one file, and only that is compiled anew when it changes.
COMMIT := $(or $(if $(wildcard .git),$(shell GIT_OPTIONAL_LOCKS=0 git describe --always --dirty --abbrev=12 --exclude='*' 2>/dev/null)),unknown)
$(MAIN_OBJ): CPPFLAGS += -DQUIRE_COMMIT='"$(COMMIT)"'
$(MAIN_OBJ): $(B)/commit
$(B)/commit: FORCE
	$(Q)mkdir -p $(@D)
	$(Q)echo '$(COMMIT)' | cmp -s - $@ || echo '$(COMMIT)' >$@

$(B)/%.o: %.c Makefile
	$(call say,CC,$<)
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) $(CPPFLAGS) $(CFLAGS) $(WARN) $(call isa_flags,$<) -MMD -MP -c -o $@ $<

$(B)/frontend/http/endpoints.o: frontend/http/page.html

$(UNIT_ALL): $(B)/%: $(B)/%.o $(HELPER_OBJ) $(FIXTURE_OBJ) $(B)/libquire.a
	$(call say,LD,$@)
	$(Q)$(CC) $(LDFLAGS) -o $@ $^ $(shell $(PKG_CONFIG) --libs cmocka) $(LDLIBS)

$(B)/tests/tools/logits: $(B)/tests/unit/rig.o
$(TOOL_BIN): $(B)/%: $(B)/%.o $(FIXTURE_OBJ) $(B)/libquire.a
	$(call say,LD,$@)
	$(Q)$(CC) $(LDFLAGS) -o $@ $(filter %.o,$^) $(filter %.a,$^) $(LDLIBS)

model: deps  ## Fetch SmolLM2-135M-Instruct into models/ (98 MB, digest checked)
	$(Q)examples/fetch-model

demo: deps  ## Install, build, fetch a small model, answer examples/prompts.jsonl
	$(Q)$(MAKE) all model
	build/quire batch -m models/SmolLM2-135M-Instruct.Q4_1.gguf -i examples/prompts.jsonl -o build/demo.jsonl
	@echo "answers: build/demo.jsonl"

tools: $(TOOL_BIN)  ## Build fixture and bench tools

unit: $(UNIT_BIN) $(if $(K),,$(TOOL_BIN))  ## Build and run the C tests (K=substring to choose)
	$(Q)B=$(B) tests/run $(if $(K),-k $(K)) $(UNIT_BIN)

SEED ?= 1
SECONDS ?= 10
sim: $(B)/tests/sim/sim_test  ## Simulate scheduler and KV pool (SEED=N SECONDS=S SIMFLAGS=..)
	$(Q)$< --seed $(SEED) --seconds $(SECONDS) $(SIMFLAGS)

# What the targets need, and no more: a build of their own under the sanitizers of clang.
FUZZ_SRC := $(wildcard core/*.c frontend/jinja/*.c) sched/priority.c $(addprefix frontend/,api/schema.c \
	api/schema_tokens.c api/api_error.c api/stop.c api/messages_body.c api/responses_body.c api/chat_template.c \
	api/chat_messages.c http/http_head.c http/http_body.c)
FUZZ_BIN := $(patsubst %.c,$(B)/%,$(sort $(wildcard tests/fuzz/*_fuzz.c)))
$(FUZZ_BIN): $(B)/%: $(B)/%.o $(FUZZ_SRC:%.c=$(B)/%.o)
	$(call say,LD,$@)
	$(Q)$(CC) $(LDFLAGS) -fsanitize=fuzzer -o $@ $^ $(LDLIBS)

fuzz:  ## Fuzz what reads bytes from outside, with clang (SECONDS=S for each target)
	$(Q)$(MAKE) CC=clang SAN=address,undefined,fuzzer-no-link DEBUG=1 fuzz-run

fuzz-run: $(FUZZ_BIN)
	$(Q)tests/fuzz/run $(SECONDS) $(FUZZ_BIN)

test: deps  ## Install what is needed, run every test
	$(Q)$(MAKE) test-run

test-run: all $(UNIT_BIN) $(TOOL_BIN)
	$(Q)B=$(B) tests/run $(if $(K),-k $(K)) $(UNIT_BIN) $(sort $(wildcard tests/cli/*_test.py tests/tidy/*_test.py))

cross:  ## Build for aarch64 and riscv64; kernels and tiny models under qemu
	$(Q)tests/cross

cover:  ## Run the C tests and print the share of lines executed, by folder
	$(Q)$(MAKE) COVER=1 unit
	$(Q)tests/cover build/cover $(SRC)

mutants:  ## Break every kernel function once: do the tests notice? (a quarter of an hour)
	$(Q)B=$(B) tests/mutants

analyze:  ## Static analysis, to be read by hand: gcc -fanalyzer, then cppcheck where installed
	-$(Q)for f in $(SRC); do $(CC) $(CPPFLAGS) $(CFLAGS) $(WARN) -fanalyzer -c -o /dev/null $$f; done
	-$(Q)if command -v cppcheck >/dev/null; then cppcheck --quiet --std=c11 --enable=warning,portability \
		--inline-suppr -I. $(filter -D%,$(CPPFLAGS)) $(SRC); fi

format:  ## clang-format the C files that differ from the last commit
	$(Q)git diff --name-only --diff-filter=d HEAD -- '*.c' '*.h' | xargs -r clang-format -i

PREFIX ?= /usr/local
MAN = $(PREFIX)/share/man/man1
COMPLETIONS = $(PREFIX)/share/bash-completion/completions
COMMANDS = $(filter-out help,$(shell sed -n 's/^ *X(\([a-z]*\), .*/\1/p' frontend/commands.h))
install: all  ## Install program, manual pages and completion under DESTDIR and PREFIX
	install -D -m 755 $(B)/quire $(DESTDIR)$(PREFIX)/bin/quire
	install -D -m 644 -t $(DESTDIR)$(PREFIX)/share/doc/quire LICENSE README.md CHANGELOG.md
	install -D -m 644 -t $(DESTDIR)$(PREFIX)/share/doc/quire examples/quire.service
	mkdir -p $(DESTDIR)$(MAN) $(DESTDIR)$(COMPLETIONS)
	$(B)/quire help --man >$(DESTDIR)$(MAN)/quire.1
	for c in $(COMMANDS); do $(B)/quire help --man $$c >$(DESTDIR)$(MAN)/quire-$$c.1 || exit 1; done
	$(B)/quire help --completion >$(DESTDIR)$(COMPLETIONS)/quire

uninstall:  ## Remove what install put there
	rm -f $(DESTDIR)$(PREFIX)/bin/quire
	rm -rf $(DESTDIR)$(PREFIX)/share/doc/quire
	rm -f $(DESTDIR)$(MAN)/quire.1 $(DESTDIR)$(MAN)/quire-*.1 $(DESTDIR)$(COMPLETIONS)/quire

VERSION = $(shell sed -n 's/^\#define QUIRE_VERSION "\(.*\)"/\1/p' frontend/version.h)
dist:  ## Pack the last commit into build/quire-VERSION.tar.gz, the same bytes each time
	$(Q)mkdir -p build
	$(Q)git archive --prefix=quire-$(VERSION)/ HEAD | gzip -n9 >build/quire-$(VERSION).tar.gz
	@echo build/quire-$(VERSION).tar.gz

clean:  ## Remove build/
	rm -rf build

-include $(shell find $(B) -name '*.d' 2>/dev/null)
