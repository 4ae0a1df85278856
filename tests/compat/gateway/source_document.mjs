// The consumers of the document that Ottla was built from, with the few lines around them that it leaves out.
// node --experimental-websocket source_document.mjs PORT TOPIC: prints the values that both have received.
const [port, topic] = process.argv.slice(2);
const base = `http://localhost:${port}`;
const seen = { poll: [], socket: [] };
const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

function finishWhenAllCame() {
  if (seen.poll.length >= 3 && seen.socket.length >= 3) {
    console.log(JSON.stringify(seen));
    process.exit(0);
  }
}

function processMessages(messages) {
  seen.poll.push(...messages.map((message) => message.value));
  finishWhenAllCame();
}

async function post(path, body) {
  const headers = { "Content-Type": "application/vnd.kafka.v2+json" };
  const answer = await fetch(base + path, { method: "POST", headers, body: body && JSON.stringify(body) });
  if (!answer.ok) throw new Error(await answer.text());
}

const commitOffsets = () => post("/consumers/my-group/instances/my-consumer/offsets");

// Long polling implementation example
async function longPollConsume() {
    while (true) {
        try {
            const response = await fetch(
                base + '/consumers/my-group/instances/my-consumer/records?timeout=30000&max_bytes=1048576',
                {
                    method: 'GET',
                    headers: { 'Accept': 'application/vnd.kafka.json.v2+json' }
                }
            );

            const messages = await response.json();
            if (messages.length > 0) {
                processMessages(messages);
                await commitOffsets();
            }
            // Immediately start next long poll request
        } catch (error) {
            console.error('Long poll error:', error);
            await sleep(5000); // Wait before retry on error
        }
    }
}

// WebSocket consumer implementation
class WebSocketKafkaConsumer {
    constructor(url, topics, groupId) {
        this.url = url;
        this.topics = topics;
        this.groupId = groupId;
        this.reconnectDelay = 5000;
    }

    connect() {
        this.ws = new WebSocket(this.url);

        this.ws.onopen = () => {
            // Subscribe to topics
            this.ws.send(JSON.stringify({
                type: 'subscribe',
                topics: this.topics,
                group_id: this.groupId
            }));
        };

        // Listen for incoming messages
        this.ws.onmessage = (event) => {
            const message = JSON.parse(event.data);
            if (message.type === 'assigned') produce(); // the document has no such line: the test waits for it
            if (message.type === 'message') {
                this.processMessage(message);

                // Send acknowledgment
                this.ws.send(JSON.stringify({
                    type: 'ack',
                    topic: message.topic,
                    partition: message.partition,
                    offset: message.offset
                }));
            }
        };

        this.ws.onclose = () => {
            setTimeout(() => this.connect(), this.reconnectDelay);
        };

        this.ws.onerror = (error) => {
            console.error('WebSocket error:', error);
        };
    }

    processMessage(message) {
        seen.socket.push(message.value);
        finishWhenAllCame();
    }
}

async function produce() {
  const headers = { "Content-Type": "application/vnd.kafka.json.v2+json" };
  for (const drink of ["coffee", "tea", "water"]) {
    const body = JSON.stringify({ records: [{ key: "table 4", value: { drink } }] });
    await fetch(`${base}/topics/${topic}`, { method: "POST", headers, body });
  }
}

await post("/consumers/my-group", { name: "my-consumer", format: "json", "auto.offset.reset": "earliest" });
await post("/consumers/my-group/instances/my-consumer/subscription", { topics: [topic] });
longPollConsume();
new WebSocketKafkaConsumer(`ws://localhost:${port}/consume`, [topic], "web-consumer-group").connect();
