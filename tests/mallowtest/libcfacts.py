"""What differs by version of the C library that the tests run with."""
import os

GLIBC = tuple(map(int, os.confstr("CS_GNU_LIBC_VERSION").split()[1].split(".")[:2]))
FASTBINS = GLIBC < (2, 43)
# since 2.43 the first free of a thread makes the thread's cache, and enters free once more: probes count two
FREE_ENTERED_TWICE = GLIBC >= (2, 43)
# bytes of a mapping that a block of its own does not have: since 2.43 two words at its end as well
MAPPED_LACKS = 16 if GLIBC < (2, 43) else 32
MAPPED_SAYS = 0 if GLIBC < (2, 43) else 16  # by which its header, and the threshold that its free makes, are less than the mapping
# what a static program's libc has of its own besides its threads' vectors, by experience
STATIC_OWN = 7 if GLIBC < (2, 39) else 8
