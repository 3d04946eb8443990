"""A runner: claims runs, gives each payload to a command on its standard input, keeps the lease while
it works, and says how it ended.

python3 runner.py <runner id> <command> [argument...]
"""

import asyncio
import json
import os
import sys
import uuid

import nats
import nats.errors

# How long a claim waits for work. It is answered as soon as there is some.
WAIT_SECONDS = 30
# For how long a run is ours without a heartbeat; one is sent every third of it.
LEASE_SECONDS = 15
# Longer than a claim waits: an answer that is late is lost.
ANSWER_SECONDS = 60
ASK_AGAIN_SECONDS = 0.5
# The run is somebody else's by now, or has ended.
LOST = ("lease_lost", "already_ended", "unknown_run")


class Refused(Exception):
    """What a request was refused with: `code` is for programs, and keeps its meaning."""

    def __init__(self, error: dict):
        super().__init__(error["message"])
        self.code = error["code"]


async def ask(client, verb: str, body: dict) -> dict:
    """Asks until there is an answer that is not to be asked for again: each is safe to repeat."""
    while True:
        try:
            answer = await client.request(
                f"wakegate.runs.{verb}", json.dumps(body).encode(), timeout=ANSWER_SECONDS
            )
            # An error has no body, and says what it is in a header.
            error = (answer.headers or {}).get("Wakegate-Error")
            if error is None:
                return json.loads(answer.data)
            refused = Refused(json.loads(error))
            if refused.code not in ("busy", "unavailable"):
                raise refused
        except (nats.errors.TimeoutError, nats.errors.NoRespondersError):
            pass  # lost on its way, or no worker is there just now
        await asyncio.sleep(ASK_AGAIN_SECONDS)


async def run_one(client, runner_id: str, command: list) -> dict | None:
    """Claims one run and sees it through; nothing where there was no work."""
    claimed = await ask(
        client,
        "claim",
        {
            "runner_id": runner_id,
            # The same claim again, because its answer was lost, is given the same run.
            "claim_id": str(uuid.uuid4()),
            "wait_seconds": WAIT_SECONDS,
            "lease_seconds": LEASE_SECONDS,
        },
    )
    if not claimed["runs"]:
        return None
    run = claimed["runs"][0]
    held = {"run_id": run["run_id"], "fencing_token": run["fencing_token"]}
    status = await see_through(client, held, command)
    return {
        **held,
        "organization_id": run["organization_id"],
        "traceparent": run.get("traceparent"),
        "status": status,
    }


async def see_through(client, held: dict, command: list) -> str:
    """From `start` to `finish`; how it has ended."""
    try:
        started = await ask(client, "start", {**held, "lease_seconds": LEASE_SECONDS})
    except Refused as refused:
        if refused.code == "cancelling":  # nothing has begun, and nothing is to
            return await finish(client, held, "cancelled")
        if refused.code in LOST:
            return "lost"
        raise
    process = await asyncio.create_subprocess_exec(
        *command, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.DEVNULL
    )
    working = asyncio.create_task(process.communicate(started["payload"].encode()))
    verdict = await keep(client, held, working)
    if verdict is not None:
        process.kill()
        await working
        # Where it was lost, somebody else says how it has ended.
        return await finish(client, held, "cancelled") if verdict == "cancelled" else verdict
    if process.returncode == 0:
        return await finish(client, held, "succeeded")
    return await finish(client, held, "failed", f"exit status: {process.returncode}")


async def keep(client, held: dict, working: asyncio.Task) -> str | None:
    """Keeps the lease while the command works; whether it is to end before it has ended by itself."""
    while True:
        done, _ = await asyncio.wait([working], timeout=LEASE_SECONDS / 3)
        if done:
            return None
        try:
            beat = await ask(client, "heartbeat", {**held, "lease_seconds": LEASE_SECONDS})
        except Refused as refused:
            if refused.code in LOST:
                return "lost"
            raise
        if "cancel" in beat:
            return "cancelled"


async def finish(client, held: dict, status: str, reason: str | None = None) -> str:
    try:
        await ask(client, "finish", {**held, "status": status, "reason": reason})
    except Refused as refused:
        if refused.code in LOST:
            return "lost"
        raise
    return status


async def main() -> None:
    runner_id, *command = sys.argv[1:]
    client = await nats.connect(
        os.environ.get("NATS_URL", "nats://127.0.0.1:4222"),
        user=os.environ.get("NATS_USER"),
        password=os.environ.get("NATS_PASSWORD"),
        inbox_prefix=os.environ.get("NATS_INBOX_PREFIX", "_INBOX"),
    )
    runs = int(os.environ.get("RUNS", "-1"))  # ends after so many
    while runs != 0:
        run = await run_one(client, runner_id, command)
        if run is not None:
            print(json.dumps(run), flush=True)
            runs -= 1
    await client.close()


if __name__ == "__main__":
    asyncio.run(main())
