// node --experimental-websocket own_client.mjs CLIENT PORT TOPIC: our own client, whose connection breaks once.
const [file, port, topic] = process.argv.slice(2);
const { OttlaSocket } = await import(file);
const seen = [];
let breaks = 1;

const client = new OttlaSocket(`ws://localhost:${port}/ws`, {
  topics: [topic],
  offsetReset: "earliest",
  reconnectMs: 50,
  onError: (error) => console.error(error),
  onMessage: async (message) => {
    seen.push([message.offset, message.value.n]);
    if (seen.length === 2 && breaks-- > 0) client.ws.close(4001, "the network breaks");
    if (seen.length === 4) {
      client.close();
      console.log(JSON.stringify(seen));
    }
  },
});
client.connect();
await client.opened;
for (let n = 0; n < 2; n++) await client.produce(topic, { n }, { key: "k" });
while (breaks > 0 || client.ws.readyState !== 1) await new Promise((resolve) => setTimeout(resolve, 20));
for (let n = 2; n < 4; n++) await client.produce(topic, { n }, { key: "k" });
