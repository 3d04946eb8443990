// Publishes that an agent assigned a task, and waits for what becomes of it.
//
// node publish.ts <organization> <task> <acting agent> <assignee> <generation>

import { randomUUID } from "node:crypto";
import { jetstream } from "@nats-io/jetstream";
import {
  connect,
  createInbox,
  headers,
  type NatsConnection,
  TimeoutError,
} from "@nats-io/transport-node";
import { token } from "./tokens.ts";

const ATTEMPTS = 3;
const OUTCOME_MS = 30_000;
const inboxPrefix = process.env.NATS_INBOX_PREFIX ?? "_INBOX";

type TaskMutated = {
  type: "task.mutated.v1";
  organization_id: string;
  task_id: string;
  acting_agent_id: string;
  new_assignee_agent_profile_id: string;
  assignment_generation: number;
};
type Outcome = { outcome: string; stream_sequence: number; [field: string]: unknown };

/** Publishes one occurrence, and returns its outcome record. */
async function publish(client: NatsConnection, event: TaskMutated): Promise<Outcome> {
  const organization = token(event.organization_id);
  const subject = `wakes.task_mutation.${organization}.${token(event.task_id)}`;
  // An inbox that nobody can guess, listened to before the event can be decided.
  const inbox = createInbox(inboxPrefix);
  const outcomes = client.subscribe(inbox, { timeout: OUTCOME_MS });
  await client.flush();
  const sequence = await store(client, subject, organization, JSON.stringify(event), inbox);
  for await (const message of outcomes) {
    const record = message.json<Outcome>();
    if (record.stream_sequence === sequence) return record; // else it is not ours, whoever sent it
  }
  throw new Error("the connection to NATS was closed");
}

/** Has the stream store one message, and returns its sequence there. */
async function store(
  client: NatsConnection,
  subject: string,
  organization: string,
  body: string,
  inbox: string,
): Promise<number> {
  let messageId = `${organization}.${randomUUID()}`;
  for (let unanswered = 0;;) {
    const head = headers();
    head.set("Nats-Msg-Id", messageId);
    head.set("Wakegate-Outcome-To", inbox);
    try {
      const ack = await jetstream(client).publish(subject, body, { headers: head, timeout: 5_000 });
      if (!ack.duplicate || unanswered > 0) return ack.seq;
      // Never sent before, and known all the same: somebody else used this id.
      messageId = `${organization}.${randomUUID()}`;
    } catch (error) {
      // It may be stored or not: repeated under the same id, it is stored once.
      if (!(error instanceof TimeoutError) || ++unanswered === ATTEMPTS) throw error;
    }
  }
}

const [organization, task, actor, assignee, generation] = process.argv.slice(2);
const client = await connect({
  servers: process.env.NATS_URL ?? "nats://127.0.0.1:4222",
  user: process.env.NATS_USER,
  pass: process.env.NATS_PASSWORD,
  inboxPrefix,
});
const record = await publish(client, {
  type: "task.mutated.v1",
  organization_id: organization,
  task_id: task,
  acting_agent_id: actor,
  new_assignee_agent_profile_id: assignee,
  assignment_generation: Number(generation),
});
console.log(JSON.stringify(record));
await client.close();
