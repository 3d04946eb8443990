"""Publishes that an agent assigned a task, and waits for what becomes of it.

python3 publish.py <organization> <task> <acting agent> <assignee> <generation>
"""

import asyncio
import json
import os
import sys
import uuid

import nats
import nats.errors

from tokens import token

ATTEMPTS = 3
OUTCOME_SECONDS = 30


async def publish(client, event: dict) -> dict:
    """Publishes one occurrence, and returns its outcome record."""
    organization = token(event["organization_id"])
    subject = f"wakes.task_mutation.{organization}.{token(event['task_id'])}"
    # An inbox that nobody can guess, listened to before the event can be decided.
    inbox = client.new_inbox()
    outcomes = await client.subscribe(inbox)
    await client.flush()
    sequence = await store(client, subject, organization, json.dumps(event).encode(), inbox)
    while True:
        record = json.loads((await outcomes.next_msg(timeout=OUTCOME_SECONDS)).data)
        if record["stream_sequence"] == sequence:  # else it is not ours, whoever sent it
            await outcomes.unsubscribe()
            return record


async def store(client, subject: str, organization: str, body: bytes, inbox: str) -> int:
    """Has the stream store one message, and returns its sequence there."""
    message_id = f"{organization}.{uuid.uuid4()}"
    unanswered = 0
    while True:
        headers = {"Nats-Msg-Id": message_id, "Wakegate-Outcome-To": inbox}
        try:
            ack = await client.jetstream().publish(subject, body, timeout=5, headers=headers)
        except nats.errors.TimeoutError:
            # It may be stored or not: repeated under the same id, it is stored once.
            unanswered += 1
            if unanswered == ATTEMPTS:
                raise
            continue
        if ack.duplicate and unanswered == 0:
            # Never sent before, and known all the same: somebody else used this id.
            message_id = f"{organization}.{uuid.uuid4()}"
            continue
        return ack.seq


async def main() -> None:
    organization, task, actor, assignee, generation = sys.argv[1:]
    client = await nats.connect(
        os.environ.get("NATS_URL", "nats://127.0.0.1:4222"),
        user=os.environ.get("NATS_USER"),
        password=os.environ.get("NATS_PASSWORD"),
        inbox_prefix=os.environ.get("NATS_INBOX_PREFIX", "_INBOX"),
    )
    event = {
        "type": "task.mutated.v1",
        "organization_id": organization,
        "task_id": task,
        "acting_agent_id": actor,
        "new_assignee_agent_profile_id": assignee,
        "assignment_generation": int(generation),
    }
    print(json.dumps(await publish(client, event)))
    await client.close()


if __name__ == "__main__":
    asyncio.run(main())
