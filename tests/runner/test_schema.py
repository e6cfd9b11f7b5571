"""Tests that bad experiments are refused in one line that names file, line, key and what was expected."""

import unittest

import support
from support import SMALL, Folder, read
from loch.runner.errors import BadInput


class Refusals(unittest.TestCase):
    def refuse(self, text, line, *parts, **more):
        with self.assertRaises(BadInput) as caught:
            read(text, **more)
        message = str(caught.exception)
        self.assertNotIn("\n", message)
        if line is not None:
            self.assertIn(f"x.yaml:{line}: ", message)
        for part in parts:
            self.assertIn(part, message)

    def change(self, old, new, line, *parts):
        self.assertIn(old, SMALL)
        self.refuse(SMALL.replace(old, new), line, *parts)

    def test_the_small_one_is_good(self):
        experiment = read(SMALL)
        self.assertEqual(experiment.axes, {"value_size": [2048, 4096, 8192]})
        self.assertEqual(experiment.systems[0].params["duration"], 2_000_000)

    def test_unknown_keys_name_the_nearest(self):
        self.change("title:", "titel:", 2, "titel: no such key", "did you mean title?")
        self.change("clients: 12", "client: 12", 8, "systems.CD.client", "did you mean clients?")
        self.change("get: 0.5", "gets: 0.5", 9, "workload.gets", "did you mean get?")
        self.change("repeats: 2", "repeat: 2", 11, "measure.repeat", "did you mean repeats?")
        self.change("kind: line", "knd: line", 12, "figure.knd", "did you mean kind?")
        self.change("value_size: [", "valuesize: [", 10, "axes.valuesize", "did you mean value_size?")

    def test_wrong_types_and_values(self):
        self.change("nodes: 15", "nodes: many", 6, "cluster.nodes", "whole number", "'many'")
        self.change("nodes: 15", "nodes: 0", 6, "cluster.nodes")
        self.change("clients: 12", "clients: [1, 2]", 8, "systems.CD.clients", "a list")
        self.change("get: 0.5", "get: 1.5", 9, "workload.get", "0 to 1")
        self.change("duration: 2ms", "duration: 2", 11, "measure.duration", "with its unit")
        self.change("[2K, 4K, 8K]", "[2K, 4X, 8K]", 10, "axes.value_size", "'4X'")
        self.change("[2K, 4K, 8K]", "2K", 10, "axes.value_size", "list")
        self.change("[2K, 4K, 8K]", "[2K, 2K]", 10, "twice")
        self.change("distribution: uniform", "distribution: zipf", 9, "did you mean zipfian?")
        self.change("fabric: sim", "fabric: simm", 4, "did you mean sim?")
        self.change("kind: line", "kind: lines", 12, "did you mean line?")

    def test_impossible_combinations(self):
        self.change("{protocol: nessie, clients: 12}", "{clients: 12}", 8, "systems.CD.protocol", "missing")
        self.change("get: 0.5,", "get: 0.5, delete: 0.6,", 8, "more than 1")
        self.change("keys: 1000", "keys: 1000, data_per_node: 20G", 9, "keys or data_per_node")
        self.change("clients: 12}", "clients: 12, value_size: 2K}", 8, "is an axis")
        self.change("clients: 12}", "tune: {clients: [1, 2]}}", 8, "maximize")
        self.change("clients: 12}", "clients: 12, maximize: throughput_ops_s}", 8, "no tune")
        self.change("clients: 12}", "tune: {clients: 12 - servers}, maximize: throughput_ops_s}", 8, "list of values")
        self.change("duration: 2ms", "duration: 2ms, operations: 5", 8, "duration or operations")
        self.change("y: latency_us.get.mean", "x: nodes", 12, "nodes is no axis")
        self.change("y: latency_us.get.mean", "relative_to: CE", 12, "did you mean CD?")
        self.change("y: latency_us.get.mean", "tail: true", 12, "figure.tail: goes with kind cdf, not with line")
        self.change("y: latency_us.get.mean", "together: latency", 12, "figure.together: needs two or more")
        self.change("y: latency_us.get.mean", "x_as: gets", 12, "figure.x_as")
        self.change("y: latency_us.get.mean", "x_as: puts", 12, "the axis value_size has no share of PUTs")
        self.refuse(
            SMALL.replace("clients: 12}", "clients: 12, delete: 0.1}")
            .replace("axes: {", "axes: {get: [0.9, 0.5], ")
            .replace("get: 0.5, ", "")
            .replace("y: latency_us.get.mean", "x: get, x_as: puts"),
            12,
            "figure.x_as: with DELETEs",
        )
        self.change(
            "axes: {value_size: [2K, 4K, 8K]}", "axes: {value_size: [2K], share_of_max: [0.5, 2]}", 10, "above 0"
        )
        self.refuse(
            SMALL.replace("clients: 12}", "clients: 12, rate: 5}").replace("[2K, 4K, 8K]}", "[2K], share_of_max: [1]}"),
            8,
            "systems.CD.rate",
            "share_of_max",
        )
        self.refuse(SMALL + "zip: [[value_size, keys]]\n", 13, "keys is no axis")
        self.refuse(SMALL + "exclude: [{system: SD}]\n", 13, "SD is not among CD")
        self.refuse(SMALL + "exclude: [{value_size: 3K}]\n", 13, "3072 is not among")
        self.refuse(SMALL + "claims:\n  - CD.x < 1\n  - CD.x <\n", 15, "cannot read the claim")
        self.refuse(SMALL + 'claims: ["CD.x < 1 where get > 0"]\n', 13, "no axis")

    def test_yaml_errors_have_lines(self):
        self.refuse(SMALL + "name: again\n", 13, "given twice", "line 1")
        self.refuse("name: [\n", None, "not YAML")
        self.refuse("- a\n", 1, "mapping")
        self.refuse("", 1, "mapping")
        self.refuse(SMALL.replace("name: small\n", ""), 1, "name", "missing")

    def test_a_profile_that_is_not_there(self):
        hardware = support.ROOT / "experiments" / "hardware"
        if not list(hardware.glob("*.yaml")):
            self.skipTest("no hardware profiles in this tree")
        self.change("connectx3-10gbe", "connectx3-10gb", 5, "hardware: no profile", "did you mean connectx3-10gbe?")
        self.change("clients: 12}", "clients: 12, hardware: connectx3-10gb}", 8, "systems.CD.hardware: no profile")

    def test_a_claim_about_a_system_that_is_not_there(self):
        self.refuse(
            SMALL + "claims:\n  - CD.x > 0\n  - CDD.x > 0\n", 15, "CDD is no system", "which has CD", "did you mean CD?"
        )
        self.refuse(SMALL + "claims: [other.x > 0]\n", 13, "other is no system of this experiment, which has CD")


class Overrides(unittest.TestCase):
    def test_set_reaches_axes_systems_measure_and_paths(self):
        experiment = read(
            SMALL,
            [
                "value_size=4K,16K",
                "clients=3",
                "repeats=5",
                "duration=7ms",
                "figure.kind=bars",
                "nessie.variant=published",
                "systems.CD.window=2",
            ],
        )
        self.assertEqual(experiment.axes["value_size"], [4096, 16384])
        params = experiment.systems[0].params
        self.assertEqual(
            (params["clients"], params["duration"], params["nessie.variant"], params["window"]),
            (3, 7_000_000, "published", 2),
        )
        self.assertEqual((experiment.measure.repeats, experiment.figure.kind), (5, "bars"))

    def test_set_reaches_a_system_by_any_name_and_its_protocol_options(self):
        text = SMALL.replace("  CD:", "  shm:")
        params = read(text, ["systems.shm.duration=9ms", "systems.shm.nessie.filter-bits=2"]).systems[0].params
        self.assertEqual((params["duration"], params["nessie.filter-bits"]), (9_000_000, "2"))

    def test_bad_sets_are_refused(self):
        for text, part in (
            ("valuesize=4K", "did you mean value_size?"),
            ("clients", "key=value"),
            ("herd.batch=4", "no system"),
            ("clients=x", "whole number"),
            ("nodes=", "key=value"),
        ):
            with self.assertRaises(BadInput) as caught:
                read(SMALL, [text])
            self.assertIn(part, str(caught.exception))

    def test_fabric_takes_the_profile_away(self):
        experiment = read(SMALL.replace("clients: 12", "clients: 12, fabric: sim"), fabric="shm")
        self.assertEqual(experiment.systems[0].params["fabric"], "shm")
        self.assertNotIn("hardware", experiment.systems[0].params)

    def test_fabric_gives_simulated_systems_run_lengths_of_real_time(self):
        def lengths(**more):
            params = read(SMALL, fabric="verbs", **more).systems[0].params
            return params.get("warmup"), params.get("duration"), params.get("operations")

        self.assertEqual(lengths(), (500_000_000, 5_000_000_000, None))
        self.assertEqual(lengths(smoke=True), (100_000_000, 500_000_000, None))
        self.assertEqual(lengths(sets=["duration=9s"]), (500_000_000, 9_000_000_000, None))
        own = SMALL.replace("clients: 12}", "clients: 12, operations: 100}")
        self.assertEqual(read(own, fabric="verbs").systems[0].params.get("operations"), 100)
        measured = SMALL.replace("fabric: sim", "fabric: shm").replace("hardware: connectx3-10gbe\n", "")
        self.assertEqual(read(measured, fabric="verbs").systems[0].params["duration"], 2_000_000)

    def test_fabric_makes_clusters_as_small_as_the_hosts_and_says_so(self):
        def system(text=SMALL, **more):
            return read(text, fabric="verbs", nodes_max=3, **more).systems[0]

        self.assertEqual((system().params["nodes"], system().label, system().published), (3, "CD, 3 nodes", ""))
        labelled = SMALL.replace("clients: 12}", 'clients: 12, label: "Nessie, 15 nodes", cluster: {nodes: 15}}')
        self.assertEqual((system(labelled).params["nodes"], system(labelled).label), (3, "Nessie, 3 nodes"))
        self.assertIn("(CD: 3 of 15 nodes", " ".join(read(SMALL, fabric="verbs", nodes_max=3).overrides))
        for wide_enough in (read(SMALL, fabric="verbs", nodes_max=15), read(SMALL, fabric="verbs")):
            self.assertEqual((wide_enough.systems[0].params["nodes"], wide_enough.systems[0].published), (15, "CD"))
        self.assertEqual(system(sets=["nodes=7"]).params["nodes"], 7)

    def test_fabric_gives_simulated_systems_no_more_client_workers_than_a_host_has_cores(self):
        def system(text=SMALL, **more):
            return read(text, fabric="verbs", **more).systems[0]

        self.assertEqual((system(cores=4).params["clients"], system(cores=4).published), (4, ""))
        self.assertIn("(CD: 1 of 12 client workers", " ".join(read(SMALL, fabric="verbs", cores=1).overrides))
        served = SMALL.replace("clients: 12}", "clients: 12, servers: 2}")
        self.assertEqual(system(served, cores=8).params["clients"], 6)
        self.assertEqual([system(cores=each).params["clients"] for each in (12, None)], [12, 12])
        self.assertEqual(system(cores=4, sets=["clients=7"]).params["clients"], 7)
        measured = SMALL.replace("fabric: sim", "fabric: shm").replace("hardware: connectx3-10gbe\n", "")
        self.assertEqual(system(measured, cores=4).params["clients"], 12)

    def test_a_system_has_its_own_cluster_and_fabric(self):
        text = SMALL.replace(
            "  CD:", "  two: {protocol: nessie, fabric: shm, cluster: {nodes: 2}, duration: 1s, keys: 9}\n  CD:"
        )
        two, one = read(text).systems
        self.assertEqual(
            (two.params["fabric"], two.params["nodes"], two.params["duration"], two.params["keys"]),
            ("shm", 2, 10**9, 9),
        )
        self.assertEqual(
            (one.params["fabric"], one.params["nodes"], one.params["hardware"]), ("sim", 15, "connectx3-10gbe")
        )

    def test_smoke_is_tiny(self):
        experiment = read(SMALL, smoke=True)
        self.assertEqual((experiment.measure.repeats, experiment.axes["value_size"]), (1, [2048, 8192]))

    def test_a_bad_smoke_is_refused_at_once(self):
        with self.assertRaises(BadInput) as caught:
            read(SMALL + "smoke: {measure.repeat: 1}\n")
        self.assertIn("x.yaml:13: smoke", str(caught.exception))
        self.assertIn("did you mean repeats?", str(caught.exception))

    def test_every_experiment_of_the_tree_is_good(self):
        folder = support.ROOT / "experiments"
        for path in [*folder.glob("*.yaml"), *folder.glob("paper/*.yaml")]:
            for smoke in (False, True):
                with self.subTest(path=path.name, smoke=smoke):
                    self.assertTrue(read(path.read_text(encoding="utf-8"), smoke=smoke).systems)


class CommandLine(Folder):
    def test_bad_input_ends_with_2_in_one_line_and_writes_nothing(self):
        path = self.write(SMALL.replace("clients: 12", "client: 12"))
        for argv in (
            ["run", path],
            ["run", "absent.yaml"],
            ["run"],
            ["plot", self.folder],
            ["score", "absent"],
            ["run", path, "--fabric", "verbs"],
            ["run", path, "--jobs", "0"],
            ["run", path, "--jobs", "x"],
        ):
            done = self.loch(*argv)
            self.assertEqual(done.returncode, 2, argv)
            self.assertEqual(len(done.stderr.strip().splitlines()), 1, done.stderr)
        self.assertEqual([p.name for p in self.folder.iterdir()], ["x.yaml"])

    def test_what_the_build_lacks_is_refused(self):
        for change, part in (
            ("protocol: nessie-hy", "expected one of nessie, nessie-sd; did you mean nessie-sd?"),
            ("protocol: nessie, nessie.filter-bit: 3", "did you mean nessie.filter-bits?"),
        ):
            done = self.loch("run", self.write(SMALL.replace("protocol: nessie", change)))
            self.assertEqual(done.returncode, 2)
            self.assertIn("x.yaml:8:", done.stderr)
            self.assertIn(part, done.stderr)

    def test_verbs_is_refused_until_it_exists(self):
        done = self.loch("run", self.write(SMALL), "--fabric", "verbs")
        self.assertEqual((done.returncode, "verbs is not in this build" in done.stderr), (2, True))

    def test_dry_run_prints_the_plan_and_writes_nothing(self):
        done = self.loch("run", self.write(SMALL), "--dry-run")
        self.assertEqual(done.returncode, 0)
        self.assertIn("1 system × 3 sizes × 2 repeats = 6 points, about", done.stdout)
        self.assertEqual([p.name for p in self.folder.iterdir()], ["x.yaml"])


if __name__ == "__main__":
    unittest.main()
