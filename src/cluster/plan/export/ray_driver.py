#!/usr/bin/env python3
"""The tasks of plan.json on a Ray cluster, written by dedup-shard export.

    python3 RUN/run_on_ray.py [--address ADDRESS] [--program PATH] [--retries N]

It does what `dedup-shard run` does, leaves complete outputs as they are, and can be called again after any interruption. All nodes
must see RUN, the documents and dedup-shard under the same names. A task takes one CPU. A task that is lost with its worker or node,
or that says that its host or disk is lost (exit status 75), is run again on another node; one that fails ends the run.

Exit: 0 all done, 1 a task failed, 75 tasks were lost more often than --retries says.
"""
import argparse, os, subprocess, sys

os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
import ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

LOST = 75

TASKS = "PLAN_TASKS"


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--address", default=os.environ.get("RAY_ADDRESS", "auto"), help="of the Ray cluster; auto: the one of this machine")
    parser.add_argument("--program", default="dedup-shard", help="dedup-shard, if it is not on the PATH")
    parser.add_argument("--retries", type=int, default=3, help="how often a task may be lost")
    return parser.parse_args()


def run_task(command, path):
    """Runs on a node of the cluster. The PATH there is that of `ray start`, so that of the driver comes with the task."""
    done = subprocess.run(command, env={**os.environ, "PATH": path}, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, errors="replace")
    return done.returncode, done.stderr.strip().splitlines()[-5:], ray.get_runtime_context().get_node_id()


def strategy(avoided):
    """Any node but those where the task was lost, as long as there is one; tasks are spread over all nodes."""
    nodes = [node["NodeID"] for node in ray.nodes() if node["Alive"] and node["Resources"].get("CPU")]
    others = [node for node in nodes if node not in avoided]
    if not avoided or not others:
        return "SPREAD"
    return NodeAffinitySchedulingStrategy(others[len(avoided) % len(others)], soft=True)


def main():
    args = arguments()
    run = os.path.dirname(os.path.abspath(__file__))
    status = subprocess.run([args.program, "status", "--missing", "--", run], check=True, stdout=subprocess.PIPE, text=True)
    missing = status.stdout.split()
    if not missing:
        print(f"nothing to do: {len(TASKS)} tasks are done")
        return 0
    ray.init(address=args.address, log_to_driver=False, logging_level="error")
    # Lost workers are counted here, together with tasks that say that they are lost.
    remote = ray.remote(num_cpus=1, max_retries=0)(run_task)
    waiting = {task: {need for need in TASKS[task]["needs"] if need in set(missing)} for task in missing}
    lost, avoided, running, failed = dict.fromkeys(missing, 0), {}, {}, []

    def start(task):
        command = [args.program, "task", "--", run, task]
        running[remote.options(name=task, scheduling_strategy=strategy(avoided.get(task, set()))).remote(command, os.environ["PATH"])] = task

    while running or waiting:
        # After a failure no other task starts.
        for task in [] if failed else [task for task, needs in waiting.items() if not needs]:
            del waiting[task]
            start(task)
        if not running:
            break
        for done in ray.wait(list(running), num_returns=1)[0]:
            task = running.pop(done)
            try:
                code, said, node = ray.get(done)
            except ray.exceptions.RayError as error:
                code, said, node = LOST, [f"the worker or its node was lost ({type(error).__name__})"], None
            if code < 0:
                code, said = LOST, [f"killed by signal {-code}", *said]
            if code == 0:
                print(f"{task}: done", flush=True)
                for needs in waiting.values():
                    needs.discard(task)
                continue
            print("\n".join([f"{task}: exit status {code}", *said]), file=sys.stderr, flush=True)
            if code == LOST and lost[task] < args.retries:
                lost[task] += 1
                avoided.setdefault(task, set()).update({node} - {None})
                if failed:
                    failed.append((task, code))
                else:
                    start(task)
            else:
                failed.append((task, code))
    if not failed:
        return 0
    print(f"{len(failed)} tasks failed, {len(waiting)} were not started; call this again when the cause is gone", file=sys.stderr)
    return LOST if all(code == LOST for _, code in failed) else 1


if __name__ == "__main__":
    sys.exit(main())
