# The front door. Meson does the work; every target works alone on a fresh Debian or Ubuntu.
#
#   make            build into build/: build/mallow and build/lib/libmallow-*.so
#   make demo       record a real program that is already here, report where its memory went, and replay it
#                   against every allocator
#   make check      every test: format, linter, all suites, and the sanitizer builds
#   make check-long the faults one by one and 200 kills of each kind, which check only samples
#   make soak       an hour of whole programs and builds under `mallow watch`, every block guarded: no alarm
#   make bench      the side-by-side table against the peers, as ratios
#   make fuzz       every fuzz target for FUZZ_SECONDS each (default 600)
#   make install    honours PREFIX (default /usr/local) and DESTDIR
#   make format     clang-format the sources in place
#   make lint       format check, linter, shell check
#   make clean      remove the build folders

PREFIX ?= /usr/local
DESTDIR ?=
FUZZ_SECONDS ?= 600
SOAK_SECONDS ?= 3600
BUILD = build

all: build

build: $(BUILD)/build.ninja
	@ninja -C $(BUILD)

$(BUILD)/build.ninja:
	@scripts/dependencies build
	@meson setup $(BUILD) --prefix="$(PREFIX)"

demo:
	@scripts/dependencies build demo
	@[ -f $(BUILD)/build.ninja ] || meson setup $(BUILD) --prefix="$(PREFIX)"
	@ninja -C $(BUILD) mallow mallow-replay lib/libmallow-record.so
	@scripts/demo $(BUILD)

check:
	@scripts/dependencies build check
	@scripts/check

check-long: build
	@MALLOW_LONG=1 MALLOW_KILLS=200 meson test -C $(BUILD) --suite host -t 10 --print-errorlogs

soak: build
	@scripts/soak $(SOAK_SECONDS) $(BUILD)

bench:
	@scripts/dependencies build bench
	@$(MAKE) --no-print-directory build
	@scripts/bench $(BUILD)

fuzz:
	@scripts/dependencies build check
	@scripts/fuzz $(FUZZ_SECONDS)

install: $(BUILD)/build.ninja
	@meson configure $(BUILD) --prefix="$(PREFIX)"
	@ninja -C $(BUILD)
	@DESTDIR="$(DESTDIR)" meson install -C $(BUILD) --no-rebuild

format:
	@scripts/format fix

lint:
	@scripts/dependencies build check
	@scripts/format check
	@scripts/lint

clean:
	rm -rf $(BUILD) $(BUILD)-asan $(BUILD)-tsan $(BUILD)-fuzz

.PHONY: all build demo check check-long soak bench fuzz install format lint clean
