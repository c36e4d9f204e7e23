"""Workers on a Ray cluster of two nodes that loses one."""

import json
import subprocess
import sys

import pytest

pytest.importorskip("ray")
pytest.importorskip("optuna")

SCRIPT = """
import json, sys, threading, time
import ray
from ray.cluster_utils import Cluster
from optuna.trial import TrialState
from wmg.tuner import cluster, study

storage = sys.argv[1]
plan = study.Plan({}, runs=60, until_settled=False, beat=2)
study.create(storage, "s", plan, {"x": list(range(9)), "y": list(range(9))}, True)

nodes = Cluster(initialize_head=True, head_node_args={"num_cpus": 0})
both = [nodes.add_node(num_cpus=2) for _ in range(2)]
nodes.wait_for_nodes()

def make_objective(task):
    def run(values, seed):
        import ray, time
        time.sleep(0.4)
        node = ray.get_runtime_context().get_node_id()
        with open(storage + ".log", "a") as file:
            file.write(f"{node} {seed}\\n")
        return [float(seed)]
    return run

def lose_a_node():
    while True:
        time.sleep(0.5)
        try:
            lines = open(storage + ".log").read().split("\\n")
        except FileNotFoundError:
            continue
        if len(lines) > 16 and len({line.split()[0] for line in lines if line}) == 2:
            nodes.remove_node(both[0], allow_graceful=False)
            return

thread = threading.Thread(target=lose_a_node)
thread.start()
done = cluster.work(nodes.address, storage, "s", 4, cluster.Resources(), 1, make_objective)
thread.join()
with study.opened(storage, "s") as shared:
    trials = shared.study.get_trials()
lines = [line.split() for line in open(storage + ".log").read().splitlines()]
print(json.dumps({
    "done": done,
    "nodes": len({node for node, _ in lines}),
    "states": {state.name: sum(t.state == state for t in trials) for state in TrialState},
    "delivered once": len({t.value for t in trials if t.state == TrialState.COMPLETE}),
    "finished": len(lines),
}))
"""


@pytest.mark.slow
def test_a_search_completes_though_one_of_two_nodes_is_lost(tmp_path):
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", SCRIPT, str(tmp_path / "t.db")],
        capture_output=True, text=True, timeout=500,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    (line,) = [line for line in done.stdout.splitlines() if line.startswith("{")]
    found = json.loads(line)
    print(found)
    complete = found["states"]["COMPLETE"]
    assert found["nodes"] == 2 and found["states"]["RUNNING"] == found["states"]["WAITING"] == 0
    assert 60 <= complete < 64 and found["delivered once"] == complete
    assert found["states"]["FAIL"] >= 1, "the lost node had runs"
