"""`mallow watch --push-as otlp`: requests of OpenTelemetry's profiles service, read by the numbers of
opentelemetry-proto 1.11 alone."""
import gzip
import os
import struct
import unittest

from mallowtest import wait_until
from collector import Collector, Pushing, fields, packed

LEAK, SIZE, COUNT = "forgets_to_free", 2000, 500
NAMES = {"mapping": 1, "location": 2, "function": 3, "link": 4, "string": 5, "attribute": 6, "stack": 7}


def one(message, number, default=None):
    found = [v for n, v in fields(message) if n == number]
    assert len(found) <= 1, found
    return found[0] if found else default


def every(message, number):
    return [v for n, v in fields(message) if n == number]


class Request:
    """attributes of the resource; profiles: [(type, unit, time_ns, duration_ns, period, id, [(value, functions)])]."""

    def __init__(self, body):
        self.bytes = gzip.decompress(body)
        top = list(fields(self.bytes))
        assert sorted({n for n, _ in top}) == [1, 2], top
        dictionary = one(self.bytes, 2)
        self.tables = {name: every(dictionary, n) for name, n in NAMES.items()}
        assert {n for n, _ in fields(dictionary)} == set(NAMES.values())
        self.texts = [t.decode() for t in self.tables["string"]]
        resource_profiles = one(self.bytes, 1)
        self.attributes = {}
        for pair in every(one(resource_profiles, 1), 1):
            key, value = one(pair, 1).decode(), one(pair, 2)
            assert key not in self.attributes
            (kind, content), = fields(value)
            self.attributes[key] = content.decode() if kind == 1 else content
            assert kind in (1, 3)
        scope_profiles = one(resource_profiles, 2)
        self.scope = one(one(scope_profiles, 1), 1).decode()
        self.profiles = [self.profile(p) for p in every(scope_profiles, 2)]

    def value_type(self, message):
        return self.texts[one(message, 1)], self.texts[one(message, 2)]

    def profile(self, message):
        kind, unit = self.value_type(one(message, 1))
        assert self.value_type(one(message, 5)) == ("space", "bytes")
        samples = []
        for s in every(message, 2):
            assert {n for n, _ in fields(s)} == {1, 4}
            value, = packed(one(s, 4))
            samples.append((value, self.stack(one(s, 1))))
        time_ns, = struct.unpack("<Q", one(message, 3))
        return kind, unit, time_ns, one(message, 4, 0), one(message, 6), one(message, 7), samples

    def stack(self, index):
        assert index
        names = []
        for location in packed(one(self.tables["stack"][index], 1)):
            assert location
            message = self.tables["location"][location]
            assert one(message, 1, 0) < len(self.tables["mapping"])
            for line in every(message, 3):
                names.append(self.texts[one(self.tables["function"][one(line, 1)], 1)])
        return names

    def total(self, kind, function=None):
        samples, = [p[6] for p in self.profiles if p[0] == kind]
        return sum(value for value, stack in samples if not function or function in stack)


@unittest.skipUnless(os.environ["PUSHES"], "this build has no libcurl")
class Otlp(unittest.TestCase):
    def pushed(self, *options, answer=None):
        with Collector(answer) if answer else Collector() as server:
            with Pushing(server.url, "--push-as", "otlp", *options) as watch:
                wait_until(lambda: len(server.asked) >= 2, "two requests")
                said = watch.end()
            return server.taken, said

    def test_requests(self):
        taken, _ = self.pushed("--label", "service_name=shop", "--label", "deployment.environment=test")
        requests = [Request(a["body"]) for a in taken]
        ids = set()
        for asked, r in zip(taken, requests):
            self.assertEqual(asked["path"], "/v1development/profiles")
            self.assertEqual(asked["headers"]["Content-Type"], "application/x-protobuf")
            self.assertEqual(asked["headers"]["Content-Encoding"], "gzip")
            self.assertEqual(r.scope, "mallow")
            self.assertEqual({k: r.attributes[k] for k in ("service.name", "deployment.environment", "process.executable.name")},
                             {"service.name": "shop", "deployment.environment": "test", "process.executable.name": "server"})
            self.assertIsInstance(r.attributes["process.pid"], int)
            self.assertTrue(r.attributes["host.name"])
            self.assertEqual([p[:2] for p in r.profiles], [("alloc_objects", "count"), ("alloc_space", "bytes"),
                                                           ("inuse_objects", "count"), ("inuse_space", "bytes")])
            self.assertEqual(len({p[2:5] for p in r.profiles}), 1)
            self.assertEqual(r.profiles[0][4], 1)
            ids.update(p[5] for p in r.profiles)
            self.assertTrue(all(len(p[5]) == 16 for p in r.profiles))
            # The first entry of each table is the value that stands for none.
            for name, table in r.tables.items():
                none = b"\x0a\x10" + bytes(16) + b"\x12\x08" + bytes(8) if name == "link" else b""
                self.assertEqual(table[0], none, name)
                self.assertEqual(len(set(table)), len(table), name)
            self.assertTrue(any(r.texts[one(m, 4)].endswith("/server") for m in r.tables["mapping"][1:]))
            keys = {r.texts[one(a, 1)] for a in r.tables["attribute"][1:]}
            self.assertLessEqual(keys, {"process.executable.build_id.gnu"})
        self.assertEqual(len(ids), 4 * len(requests))
        self.assertEqual(sum(r.total("alloc_objects", LEAK) for r in requests), COUNT)
        self.assertEqual(sum(r.total("alloc_space", LEAK) for r in requests), COUNT * SIZE)
        self.assertEqual({r.total("inuse_space", LEAK) for r in requests[1:]}, {COUNT * SIZE})
        for before, after in zip(requests, requests[1:]):
            self.assertEqual(before.profiles[0][2] + before.profiles[0][3], after.profiles[0][2])

    def test_what_is_taken_in_part(self):
        def answer(n, asked):
            return 200, {}, b"\x0a\x05\x08\x01\x12\x01x" if n == 1 else b""
        _, said = self.pushed(answer=answer)
        self.assertIn("refused the rest", said)
        self.assertIn("; 1 refused by the server", said)

    def test_what_says_that_all_was_taken(self):
        def answer(n, asked):
            return 200, {}, (b"\x0a\x00", b"\x0a\x02\x08\x00", b"{}", b"\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff")[n % 4]
        _, said = self.pushed(answer=answer)
        self.assertNotIn("refused", said)
