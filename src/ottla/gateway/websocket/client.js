// A client for the WebSocket of Ottla's gateway: one file, no dependencies, for browsers and for Node 22 or newer.
//
//   const client = new OttlaSocket("ws://localhost:8082/ws", {
//     topics: ["orders"], groupId: "web", onMessage: async (message) => show(message.value),
//   });
//   client.connect();
//   const { offset } = await client.produce("orders", { drink: "coffee" }, { key: "table 4" });
//
// A message is acknowledged when onMessage has returned, or its promise is fulfilled. After a lost connection the
// client connects again, after ever longer pauses, and goes on behind the last acknowledged record: with a group
// from the group's committed offsets, without one from the offsets that it remembers itself.
export class OttlaSocket {
  constructor(url, options = {}) {
    this.url = url;
    this.options = { offsetReset: "latest", reconnectMs: 500, maxReconnectMs: 30000, ...options };
    this.offsets = new Map(); // without a group: where each partition goes on
    this.pending = new Map(); // by id: who waits for an answer
    this.nextId = 1;
    this.attempts = 0;
    this.isClosed = false;
    this.opened = new Promise((resolve) => (this.resolveOpened = resolve));
  }

  connect() {
    const ws = (this.ws = new (this.options.WebSocket ?? globalThis.WebSocket)(this.url));
    ws.onopen = () => this.#begin();
    ws.onmessage = (event) => this.#heard(JSON.parse(event.data));
    ws.onerror = () => {}; // onclose follows, and says more
    ws.onclose = (event) => this.#lost(event);
  }

  close() {
    this.isClosed = true;
    clearTimeout(this.timer);
    this.ws?.close(1000);
  }

  produce(topic, value, fields = {}) {
    return this.#ask({ type: "produce", topic, value, ...fields });
  }

  seek(topic, partition, offset) {
    return this.#ask({ type: "seek", topic, partition, offset });
  }

  pause() {
    return this.#ask({ type: "pause" });
  }

  resume() {
    return this.#ask({ type: "resume" });
  }

  credit(count) {
    this.#send({ type: "credit", count });
  }

  async #begin() {
    const { auth, topics, groupId, offsetReset, credits, onError } = this.options;
    try {
      if (auth) await this.#ask({ type: "auth", ...auth });
      if (topics?.length) {
        const wanted = { type: "subscribe", topics, offset_reset: offsetReset };
        if (credits !== undefined) wanted.credits = credits;
        if (groupId) wanted.group_id = groupId;
        else if (this.offsets.size) wanted.offsets = [...this.offsets.values()];
        await this.#ask(wanted);
      }
      this.attempts = 0;
      this.resolveOpened();
    } catch (error) {
      onError?.(error);
      this.ws.close(4000, "the gateway refused");
    }
  }

  async #heard(message) {
    const waiter = message.id === undefined ? undefined : this.pending.get(message.id);
    if (waiter) {
      this.pending.delete(message.id);
      if (message.type === "error") waiter.reject(Object.assign(new Error(message.message), message));
      else waiter.resolve(message);
    } else if (message.type === "message") {
      await this.#received(message);
    } else if (message.type === "error") {
      this.options.onError?.(Object.assign(new Error(message.message), message));
    }
  }

  async #received(message) {
    const socket = this.ws;
    try {
      await this.options.onMessage?.(message);
    } catch (error) {
      this.options.onError?.(error); // not acknowledged: it comes again after a reconnect
      return;
    }
    const { topic, partition, offset } = message;
    this.offsets.set(`${topic}-${partition}`, { topic, partition, offset: offset + 1 });
    if (this.options.groupId && socket === this.ws) this.#send({ type: "ack", topic, partition, offset });
  }

  #ask(message) {
    const id = this.nextId++;
    return new Promise((resolve, reject) => {
      this.pending.set(id, { resolve, reject });
      if (!this.#send({ ...message, id })) {
        this.pending.delete(id);
        reject(new Error("the WebSocket is not open"));
      }
    });
  }

  #send(message) {
    if (this.ws?.readyState !== 1) return false;
    this.ws.send(JSON.stringify(message));
    return true;
  }

  #lost(event) {
    for (const { reject } of this.pending.values()) reject(new Error("the connection was lost before the answer"));
    this.pending.clear();
    this.options.onClose?.(event);
    if (this.isClosed) return;
    const longest = Math.min(this.options.maxReconnectMs, this.options.reconnectMs * 2 ** this.attempts++);
    this.timer = setTimeout(() => this.connect(), longest * (0.5 + Math.random() / 2)); // not all at the same time
  }
}
