# The front door. Meson does the work; every target works alone on a fresh Debian or Ubuntu.
#
#   make            build into build/: build/mallow and build/lib/libmallow-*.so
#   make demo       record a real program of this machine, report where its memory went, and replay it
#                   against every allocator
#   make test       the quick tests, in about a minute
#   make check      every test: format, linter, all suites, and the sanitizer builds
#   make check-long the faults one by one, 200 kills of each kind, targets that change for TARGET_SECONDS (an hour), the
#                   packages, and Debian 13 and unstable in roots of their own: what check only samples or leaves out
#   make soak       an hour of whole programs and builds under `mallow watch`, every block guarded: no alarm
#   make bench      the side-by-side table against the peers, as ratios
#   make fuzz       every fuzz target for FUZZ_SECONDS each (default 600)
#   make install    honors PREFIX (default /usr/local) and DESTDIR; stripped
#   make uninstall  removes what `make install` put there
#   make deb        a Debian package in build/
#   make web        bundle the page anew into web/dist, after a change to web/src (needs Node and npm)
#   make format     clang-format the sources in place
#   make lint       format check, linter, shell check
#   make clean      remove the build directories

PREFIX ?= /usr/local
DESTDIR ?=
FUZZ_SECONDS ?= 600
SOAK_SECONDS ?= 3600
TARGET_SECONDS ?= 3600
BUILD = build
# Tests that take a sample of their cases in `make check`, beside the suites host and watchlib.
SAMPLED = attach-record cli-cut cli-mutants fleet-cluster heap-damage heap-saved-damage house-lint report-index web-page

all: build

build: $(BUILD)/build.ninja
	@ninja -C $(BUILD) product

$(BUILD)/build.ninja:
	@scripts/dependencies build
	@env $$(scripts/compiler) meson setup $(BUILD) --prefix="$(PREFIX)" -Dtests=false

# The same directory with the tests in it.
tests: $(BUILD)/build.ninja
	@scripts/dependencies build check
	@scripts/compiler gcc $(BUILD)
	@meson configure $(BUILD) -Dtests=true
	@ninja -C $(BUILD)

test: tests
	@meson test -C $(BUILD) --no-rebuild --no-suite slow --no-suite long --print-errorlogs

demo:
	@scripts/dependencies build demo
	@$(MAKE) --no-print-directory build
	@scripts/demo $(BUILD)

check:
	@scripts/dependencies build check
	@scripts/check

check-long: tests
	@$(BUILD)/tests/trace/test_damage 10000 tests/trace/golden/*.raw tests/trace/golden/*.stored tests/trace/golden/*.sealed
	@$(BUILD)/tests/record/fuzz-session 1 2000
	@MALLOW_LONG=1 MALLOW_KILLS=200 meson test -C $(BUILD) --suite host --suite watchlib -t 200 --print-errorlogs
	@MALLOW_LONG=1 meson test -C $(BUILD) -t 200 --print-errorlogs $(SAMPLED)
	@tests/programs/whole $(BUILD)
	@scripts/targets $(TARGET_SECONDS) $(BUILD)
	@$(MAKE) --no-print-directory deb
	@scripts/systems pass $(BUILD)/systems trixie sid
	@tests/packaging/deb.sh $(BUILD)-deb/mallow_*.deb
	@tests/packaging/reproducible.sh .

soak: tests
	@scripts/soak $(SOAK_SECONDS) $(BUILD)

bench: tests
	@scripts/dependencies bench
	@scripts/bench $(BUILD)

fuzz:
	@scripts/dependencies build check
	@scripts/fuzz $(FUZZ_SECONDS)

install: $(BUILD)/build.ninja
	@meson configure $(BUILD) --prefix="$(PREFIX)"
	@ninja -C $(BUILD) product
	@DESTDIR="$(DESTDIR)" meson install -C $(BUILD) --no-rebuild --strip

uninstall:
	@scripts/uninstall $(BUILD) "$(DESTDIR)"

deb:
	@scripts/dependencies build deb
	@scripts/deb $(BUILD)

web:
	@scripts/dependencies web
	@sh web/packages.sh web/package.json web/package-lock.json $(BUILD)-web/packages.stamp
	@node web/bundle.mjs web $(BUILD)-web web/dist

format:
	@scripts/format fix

lint:
	@scripts/dependencies build check
	@scripts/format check
	@scripts/lint

clean:
	rm -rf $(BUILD) $(BUILD)-asan $(BUILD)-tsan $(BUILD)-fuzz $(BUILD)-web $(BUILD)-deb

.PHONY: all build tests test demo check check-long soak bench fuzz install uninstall deb web format lint clean
