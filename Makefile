# make          the programs, in target/release
# make help     what else there is
#
# Nothing has to be prepared: `make demo` installs what building needs, `make test` what the tests need as well.

prefix      ?= /usr/local
exec_prefix ?= $(prefix)
bindir      ?= $(exec_prefix)/bin
datarootdir ?= $(prefix)/share
mandir      ?= $(datarootdir)/man
bashdir     ?= $(datarootdir)/bash-completion/completions
zshdir      ?= $(datarootdir)/zsh/site-functions
fishdir     ?= $(datarootdir)/fish/vendor_completions.d

CARGO            ?= cargo
INSTALL          ?= install
CARGO_TARGET_DIR ?= target
# The Cargo profile of the programs: release builds fast, dist takes longer and is for packages.
PROFILE          ?= release
# A target of Cargo, such as x86_64-unknown-linux-musl, and features besides the default ones; empty: this machine.
TARGET           ?=
FEATURES         ?=

BINARIES := $(sort $(notdir $(basename $(wildcard src/bin/*.rs))))
OUT      := $(CARGO_TARGET_DIR)$(TARGET:%=/%)/$(PROFILE)
BUILT    := $(BINARIES:%=$(OUT)/%)
SOURCES  := Cargo.toml Cargo.lock scripts/dev/build.rs $(shell find src -type f)
# man/NAME.1 are printed by the programs; the other sections are written by hand.
PAGES_1  := $(BINARIES:%=man/%.1)
PAGES_5  := $(sort $(wildcard man/*.5))
PAGES_7  := $(sort $(wildcard man/*.7))

all: build

##@ Use

build: $(BUILT)                         ## the programs, optimised

# Cargo knows what to rebuild; the prerequisites only spare `sudo make install` the need to ask it. The make of OpenSSL, which cargo may
# run, would install into our DESTDIR.
$(BUILT) &: $(SOURCES)
	env -u MAKEFLAGS -u MFLAGS -u DESTDIR -u prefix -u TARGET -u PROFILE $(CARGO) build --profile $(PROFILE) --locked --bins $(TARGET:%=--target %) $(FEATURES:%=--features %)
	@touch $(BUILT)

demo: | deps-build                      ## a crawl, essays, newspapers, a question: on testdata/demo
	@$(MAKE) --no-print-directory --silent build
	@scripts/dev/demo

install: $(BUILT) $(PAGES_1)            ## programs, man pages, completions, under $(DESTDIR)$(prefix)
	$(INSTALL) -d $(addprefix $(DESTDIR),$(bindir) $(mandir)/man1 $(mandir)/man5 $(mandir)/man7 $(bashdir) $(zshdir) $(fishdir))
	$(INSTALL) -m 755 $(BUILT) $(DESTDIR)$(bindir)
	$(INSTALL) -m 644 $(PAGES_1) $(DESTDIR)$(mandir)/man1
	$(if $(PAGES_5),$(INSTALL) -m 644 $(PAGES_5) $(DESTDIR)$(mandir)/man5)
	$(if $(PAGES_7),$(INSTALL) -m 644 $(PAGES_7) $(DESTDIR)$(mandir)/man7)
	@set -e; umask 022; for name in $(BINARIES); do \
	    program=$(OUT)/$$name; \
	    $$program --generate bash >"$(DESTDIR)$(bashdir)/$$name"; \
	    $$program --generate zsh >"$(DESTDIR)$(zshdir)/_$$name"; \
	    $$program --generate fish >"$(DESTDIR)$(fishdir)/$$name.fish"; \
	done

uninstall:                              ## remove what install put there, and nothing else
	rm -f $(addprefix $(DESTDIR), \
	    $(BINARIES:%=$(bindir)/%) \
	    $(PAGES_1:man/%=$(mandir)/man1/%) $(PAGES_5:man/%=$(mandir)/man5/%) $(PAGES_7:man/%=$(mandir)/man7/%) \
	    $(BINARIES:%=$(bashdir)/%) $(BINARIES:%=$(zshdir)/_%) $(BINARIES:%=$(fishdir)/%.fish))

dist: | deps-dist                       ## a release in target/package: archive, .deb, wheel, crate
	@scripts/dev/dist

##@ Work on it

test: | deps                            ## all tests
	@scripts/dev/test

test-cluster: | deps-cluster            ## Slurm, Snakemake, Ray, NATS, on this machine
	DEDUP_CLUSTER=1 $(CARGO) test --locked --features nats --test it -- slurm cluster exports history_log
	$(CARGO) test --locked --features nats --lib -- history::log

lint: | deps                            ## format, clippy, documents, man pages; silent if all is well
	@$(CARGO) fmt --check
	@$(CARGO) clippy --quiet --all-targets --features nats --locked -- -D warnings
	@$(CARGO) clippy --quiet --no-default-features --locked -- -D warnings
	@scripts/dev/check-layers
	@scripts/dev/check-paths
	@scripts/dev/code-figures --check
	@scripts/dev/third-party --check
	@RUSTDOCFLAGS='-D warnings' $(CARGO) doc --quiet --no-deps --features nats --locked
	@$(CARGO) build --quiet --features nats --locked --profile test --bins
	@scripts/dev/check-man $(CARGO_TARGET_DIR)/debug

man: $(BUILT)                           ## regenerate man/*.1 from the programs' own arguments
	@rm -f $(PAGES_1)
	@$(MAKE) --no-print-directory --silent $(PAGES_1)

man/%.1: | $(BUILT)
	@mkdir -p man
	$(OUT)/$* --generate man >$@

evaluate: | deps                        ## how good the answers are, beside papers and other tools
	@$(MAKE) --no-print-directory --silent build
	@scripts/evaluate/all

# On request: scripts/bench/history with 27 million entries, which takes an hour; scripts/bench/scale for up to 12 GB of text, which takes 35 GB of disk.
BENCH_ENTRIES ?= 270000 2700000

bench: | deps                           ## speed and memory of everything
	@$(MAKE) --no-print-directory --silent build
	@scripts/bench/speed
	@scripts/bench/table
	@scripts/bench/spex
	@scripts/bench/pages
	@scripts/bench/history $(BENCH_ENTRIES)
	@scripts/bench/service $(BENCH_ENTRIES)
	@scripts/bench/shard
	@scripts/bench/peers

peers: | deps                           ## the same question to this tool and to others, from PyPI
	@$(MAKE) --no-print-directory --silent build
	@scripts/bench/peers

soak: | deps-dev                        ## kill writers and servers; fuzz: CHAOS_SECONDS, FUZZ_SECONDS
	@scripts/dev/soak

msrv:                                   ## check with the oldest Rust that Cargo.toml promises
	@scripts/dev/check-msrv

clean:                                  ## remove what was built
	$(CARGO) clean --quiet
	rm -rf tests/fuzz/target

deps-build:
	@scripts/dev/install-deps --build

deps:
	@scripts/dev/install-deps

deps-cluster:
	@scripts/dev/install-deps --cluster

deps-dev:
	@scripts/dev/install-deps --dev

deps-dist:
	@scripts/dev/install-deps --dist

help:                                   ## this list
	@awk -F ':.*## ' '/^##@/ { print "\n" substr($$0, 5) } /^[a-z-]+:.*## / { printf "  make %-13s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: all build demo install uninstall dist test test-cluster lint man evaluate bench peers soak msrv clean deps deps-build deps-cluster deps-dev deps-dist help
.DELETE_ON_ERROR:
