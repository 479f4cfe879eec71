"""What must hold of every report in JSON: the fields that scripts rely on, and sums that must agree."""
import json

API = {"malloc", "free", "calloc", "realloc", "reallocarray", "posix_memalign", "aligned_alloc", "memalign", "valloc",
       "pvalloc", "free_sized", "free_aligned_sized", "mmap", "munmap", "mremap"}
PROCESS = {"pid": int, "ppid": int, "command": list, "exe": str, "threads": int, "duration_ns": int, "complete": bool,
           "calls": dict, "failed_calls": int, "requested_bytes": int, "usable_bytes": int, "peak_live_bytes": int,
           "peak_live_blocks": int, "peak_time_ns": int, "end_live_bytes": int, "end_live_blocks": int,
           "temporary_allocations": int, "cross_thread_frees": int, "unknown_frees": int, "stacks": int,
           "size_histogram": list, "sites": list}
FRAME = {"function": str, "file": str, "line": int, "module": str, "inlined": bool}
SITE = {"frames": list, "calls": int, "allocated_bytes": int, "peak_bytes": int, "end_live_bytes": int,
        "end_live_blocks": int, "temporary": int}
MAKES_BLOCKS = {"malloc", "calloc", "realloc", "reallocarray", "posix_memalign", "aligned_alloc", "memalign", "valloc",
                "pvalloc"}


def disagreements(document):
    """What is wrong with a JSON report, as lines; shared with other tests of real recordings."""
    bad = []

    def want(condition, what):
        if not condition:
            bad.append(what)

    def fields(of, wanted, where):
        for name, kind in wanted.items():
            want(name in of and isinstance(of[name], kind) and not (kind is int and isinstance(of[name], bool)),
                 f"{where}: {name}")

    want(document.get("schema") == 1, "schema")
    fields(document, {"events": int, "lost_events": int, "file_bytes": int, "processes": list}, "top")
    for p in document["processes"]:
        where = f"process {p.get('pid')}"
        fields(p, PROCESS, where)
        want(API <= set(p["calls"]), f"{where}: names of calls")
        want(sum(p["calls"].values()) == p["events"], f"{where}: calls add up to events")
        want(sum(p["failed"].values()) == p["failed_calls"], f"{where}: failed calls")
        sites = p["sites"]
        left_out = p["left_out"]
        want(len(sites) + p["sites_left_out"] == p["sites_total"], f"{where}: sites that are left out")
        for of_site, of_process in (("calls", "allocations"), ("allocated_bytes", "requested_bytes"),
                                    ("peak_bytes", "peak_live_bytes"), ("peak_blocks", "peak_live_blocks"),
                                    ("end_live_bytes", "end_live_bytes"), ("end_live_blocks", "end_live_blocks"),
                                    ("temporary", "temporary_allocations")):
            want(sum(s[of_site] for s in sites) + left_out[of_site] == p[of_process],
                 f"{where}: sites' {of_site} add up")
        for s in sites:
            fields(s, SITE, where)
            for f in s["frames"]:
                fields(p["frame_table"][f] if "frame_table" in p else f, FRAME, where)
        seen = [json.dumps(s["frames"]) for s in sites]
        want(len(set(seen)) == len(seen), f"{where}: sites are distinct")
        want(sum(h["calls"] for h in p["size_histogram"]) == p["allocations"], f"{where}: sizes, calls")
        want(sum(h["bytes"] for h in p["size_histogram"]) == p["requested_bytes"], f"{where}: sizes, bytes")
        for h in p["size_histogram"]:
            want(h["min_bytes"] * h["calls"] <= h["bytes"] <= h["max_bytes"] * h["calls"], f"{where}: size class {h}")
        want(p["usable_bytes"] >= p["requested_bytes"], f"{where}: usable")
        want(p["peak_live_bytes"] >= p["end_live_bytes"], f"{where}: the peak is the largest")
        want(0 <= p["peak_time_ns"] <= p["duration_ns"], f"{where}: time of the peak")
        want(p["peak_live_bytes"] == max([t["max_live_bytes"] for t in p["timeline"]] + [0]), f"{where}: timeline")
        allocated = sum(p["calls"][name] - p["failed"].get(name, 0) for name in MAKES_BLOCKS)
        want(p["allocations"] <= allocated, f"{where}: allocations")
        resident = p.get("resident_at_peak")
        if resident:
            parts = ("rounding_bytes", "heap_and_arenas_free_bytes", "other_mappings_bytes",
                     "allocator_and_mappings_bytes", "stacks_bytes", "files_bytes", "shared_bytes", "other_bytes")
            want(sum(resident.get(part, 0) for part in parts) == resident["above_live_bytes"]
                 == resident["resident_bytes"] - resident["live_bytes"], f"{where}: parts of the resident size")
    want(sum(p["events"] for p in document["processes"]) == document["events"], "events")
    return bad
