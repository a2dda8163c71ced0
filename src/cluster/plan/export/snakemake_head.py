# The tasks of plan.json for Snakemake, written by dedup-shard export.
#
#     snakemake --snakefile RUN/Snakefile --directory RUN --cores 8 --rerun-incomplete --rerun-triggers mtime
#
# It does what `dedup-shard run` does, leaves complete outputs as they are, and can be called again after any interruption. After a
# kill -9 of snakemake its jobs go on: wait for them, then call it with --unlock, and again. With an executor for a cluster, all
# nodes must see RUN, the documents and dedup-shard under the same names.
#
# --config dedup_shard=PATH    the program, if it is not on the PATH
# --config lost_retries=N      how often a task that lost its host or disk is run again (exit status 75); 3
import os, shlex

TASKS = "PLAN_TASKS"

RESULTS = "PLAN_RESULTS"

PROGRAM = shlex.quote(config.get("dedup_shard", "dedup-shard")).replace("{", "{{").replace("}", "}}")
RETRIES = int(config.get("lost_retries", 3))

# An attempt that failed for good leaves its exit status in .failed; attempts that Snakemake makes after that end at once.
TASK = (
    "mkdir -p .done .failed; failed=.failed/{wildcards.id}\n"
    "if test {resources.attempt} -gt 1 && test -e $failed; then exit $(cat $failed); fi\n"
    "rm -f $failed; status=0\n"
    + PROGRAM + " task . {wildcards.id} || status=$?\n"
    "if test $status -eq 0; then touch {output}; exit 0; fi\n"
    "if test $status -ne 75; then echo $status > $failed; fi\n"
    "exit $status"
)

# Outputs decide, not markers: one that was removed is made again.
for task_id, task in TASKS.items():
    if os.path.exists(f".done/{task_id}") and not os.path.exists(task["marker"]):
        os.remove(f".done/{task_id}")


def needs(task_id):
    return [f".done/{need}" for need in TASKS[task_id]["needs"]]


rule all:
    input: [f".done/{task_id}" for task_id in RESULTS]
