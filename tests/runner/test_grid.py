"""Tests of the expansion of axes, of tuning candidates, the number of keys, and the names of points."""

import unittest

from support import SMALL, read
from loch.runner import grid, options
from loch.runner.errors import BadInput
from loch.runner.points import point_hash


class Grid(unittest.TestCase):
    def test_product_repeats_and_seeds(self):
        points = grid.points(read(SMALL))
        self.assertEqual(len(points), 6)
        self.assertEqual([point.repeat for point in points], [0, 0, 0, 1, 1, 1])
        self.assertEqual([point.params["seed"] for point in points], [1, 1, 1, 2, 2, 2])
        self.assertEqual(len({point_hash(point) for point in points}), 6)

    def test_zip_and_exclude(self):
        text = SMALL.replace(
            "axes: {value_size: [2K, 4K, 8K]}", "axes: {value_size: [2K, 4K, 8K], window: [1, 2, 3], get: [0.5, 0.9]}"
        )
        text += "zip: [[value_size, window]]\nexclude: [{value_size: [4K, 8K], get: 0.9}]\n"
        places = grid.combinations(read(text.replace("get: 0.5, distribution", "distribution")), read(SMALL).systems[0])
        self.assertEqual(
            [tuple(place.values()) for place in places],
            [(2048, 1, 0.5), (2048, 1, 0.9), (4096, 2, 0.5), (8192, 3, 0.5)],
        )
        self.assertEqual(list(places[0]), ["value_size", "window", "get"])

    def test_data_per_node_becomes_keys(self):
        text = SMALL.replace("keys: 1000", "data_per_node: 20G") + "scale: 0.1\n"
        keys = [point.params["keys"] for point in grid.points(read(text))][:3]
        self.assertEqual(keys, [int(20 * 2**30 * 0.1 * 15 / size) for size in (2048, 4096, 8192)])

    def test_where_some_nodes_only_serve_they_alone_hold_data(self):
        text = SMALL.replace("keys: 1000", "data_per_node: 20G").replace(
            "clients: 12", "clients: 12, cluster: {server_nodes: 2}"
        )
        point = grid.points(read(text))[0]
        self.assertEqual((point.params["keys"], point.params["server_nodes"]), (int(20 * 2**30 * 2 / 2048), 2))

    def test_a_systems_keys_win_over_shared_data(self):
        text = SMALL.replace("keys: 1000", "data_per_node: 20G").replace("clients: 12", "clients: 12, keys: 77")
        self.assertEqual({point.params["keys"] for point in grid.points(read(text))}, {77})

    def test_shuffling_keeps_repeats_apart_and_is_decided_by_the_seed(self):
        points = grid.points(read(SMALL))
        first, again, other = (grid.shuffled(points, seed) for seed in (1, 1, 2))
        self.assertEqual([p.repeat for p in first], [0, 0, 0, 1, 1, 1])
        self.assertEqual([point_hash(p) for p in first], [point_hash(p) for p in again])
        self.assertNotEqual([point_hash(p) for p in first], [point_hash(p) for p in other])

    def test_tuning_candidates_work_out_expressions(self):
        text = SMALL.replace(
            "clients: 12", "tune: {servers: [1, 2, 3], clients: 12 - servers}, maximize: throughput_ops_s"
        )
        experiment = read(text)
        tried = grid.candidates(experiment.systems[0], {"value_size": 2048})
        self.assertEqual(
            tried, [{"servers": 1, "clients": 11}, {"servers": 2, "clients": 10}, {"servers": 3, "clients": 9}]
        )
        points = grid.tuning_points(experiment)
        self.assertEqual((len(points), points[0].params["duration"]), (9, 500_000))

    def test_tuning_at_one_place_holds_for_all(self):
        text = SMALL.replace("clients: 12", "tune: {servers: [1, 2]}, maximize: throughput_ops_s")
        text = text.replace("axes: {", "zip: [[hogs, settle]]\naxes: {hogs: [0, 4], settle: [0ms, 2s], ")
        text = text.replace("measure: {", "measure: {tune_at: {hogs: 0}, ")
        experiment = read(text)
        points = grid.tuning_points(experiment)
        self.assertEqual({(p.params["hogs"], p.params["settle"]) for p in points}, {(0, 0)})
        self.assertEqual({p.axes["hogs"] for p in points}, {0, 4})
        self.assertEqual(len({point_hash(p) for p in points}), len(points) // 2)
        self.assertIn(f"plus {len(points) // 2} short runs", grid.plan(experiment))
        self.assertEqual(read(text, ["hogs=4", "settle=2s"]).measure.tune_at, {})
        with self.assertRaises(BadInput) as caught:
            read(text.replace("tune_at: {hogs: 0}", "tune_at: {hogs: 3}"))
        self.assertIn("3 is not among 0, 4", str(caught.exception))

    def test_a_tuned_value_must_be_possible(self):
        text = SMALL.replace(
            "clients: 12", "tune: {servers: [1, 12], clients: 12 - servers}, maximize: throughput_ops_s"
        )
        with self.assertRaises(BadInput) as caught:
            grid.tuning_points(read(text))
        self.assertIn("systems.CD.tune.clients", str(caught.exception))

    def test_the_name_of_a_point_follows_from_its_parameters(self):
        one, two = (
            grid.points(read(SMALL.replace("title: A small", title)))[0] for title in ("title: A small", "title: B")
        )
        self.assertEqual(point_hash(one), point_hash(two))
        self.assertNotEqual(point_hash(one), point_hash(grid.points(read(SMALL, ["clients=3"]))[0]))

    def test_arguments_are_the_flags_of_bench(self):
        argv = options.arguments(
            grid.points(read(SMALL, ["verify=true", "pin=false", "nessie.filter-bits=3", "keys=1M"]))[0].params
        )
        text = " ".join(argv)
        for part in (
            "--protocol nessie",
            "--fabric sim",
            "--value-size 2048",
            "--duration 2ms",
            "--get 0.5",
            "--seed 1",
            "--nessie.filter-bits 3",
            "--key-size 128",
        ):
            self.assertIn(part, text)
        self.assertIn("--verify", argv)
        self.assertIn("--pin=false", argv)
        self.assertIn(str(2**20), argv)
        self.assertNotIn("true", argv)


if __name__ == "__main__":
    unittest.main()
