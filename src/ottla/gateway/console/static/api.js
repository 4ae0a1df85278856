// Calls of the console's API, and what a component needs to follow one of them.
import { useCallback, useEffect, useRef, useState } from "./preact.js";

const BASE = "/console/api";

export class Problem extends Error {
  constructor(status, message, kafkaError) {
    super(message);
    this.status = status;
    this.kafkaError = kafkaError;
  }
}

const listeners = new Set();
export const onLoggedOut = (listener) => { listeners.add(listener); return () => listeners.delete(listener); };

async function call(method, path, body) {
  const headers = { Accept: "application/json" };
  if (method !== "GET") headers["X-Ottla-Console"] = "1";
  if (body !== undefined) headers["Content-Type"] = "application/json";
  let reply;
  try {
    reply = await fetch(BASE + path, { method, headers, body: body && JSON.stringify(body), credentials: "same-origin" });
  } catch {
    throw new Problem(0, "the gateway cannot be reached: is it running?");
  }
  const value = await reply.json().catch(() => ({}));
  if (!reply.ok) {
    if (reply.status === 401) listeners.forEach((tell) => tell());
    throw new Problem(reply.status, value.message || `the gateway answered ${reply.status}`, value.kafka_error);
  }
  return value;
}

export const get = (path) => call("GET", path);
export const post = (path, body) => call("POST", path, body);
export const remove = (path) => call("DELETE", path);
export const act = (action, body) => post(`/actions/${action}`, body);

export function path(...parts) {
  return `/${parts.map((part) => encodeURIComponent(part)).join("/")}`;
}

export function query(values) {
  const given = Object.entries(values).filter(([, value]) => value !== "" && value !== null && value !== undefined && value !== false);
  const text = new URLSearchParams(given.map(([key, value]) => [key, String(value)])).toString();
  return text ? `?${text}` : "";
}

export const address = (address_) => BASE + address_;

// What an address answers, asked again every `every` ms while the tab is seen. An error keeps what was known.
export function useApi(address_, every = 0) {
  const [state, setState] = useState({ data: null, error: null, at: 0, for: null });
  const turn = useRef(0);
  const load = useCallback(async () => {
    if (address_ === null) return;
    const mine = (turn.current += 1);
    try {
      const data = await get(address_);
      if (mine === turn.current) setState({ data, error: null, at: Date.now(), for: address_ });
    } catch (error) {
      if (mine === turn.current) setState((old) => ({ ...(old.for === address_ ? old : { data: null, at: 0 }), error, for: address_ }));
    }
  }, [address_]);
  useEffect(() => {
    load();
    const timer = every ? setInterval(() => { if (!document.hidden) load(); }, every) : 0;
    const seen = () => { if (every && !document.hidden) load(); };
    document.addEventListener("visibilitychange", seen);
    return () => { turn.current += 1; clearInterval(timer); document.removeEventListener("visibilitychange", seen); };
  }, [load, every]);
  const stale = state.for !== address_;
  return { data: state.data, error: stale ? null : state.error, at: state.at, isLoading: stale && address_ !== null, reload: load };
}
