// The frame: who looks, which page, keys, dark and light.
import { html, render, useEffect, useRef, useState } from "./preact.js";
import { get, onLoggedOut, post, Problem as ApiProblem, remove } from "./api.js";
import { ActionPlace } from "./action.js";
import { Dialog, Field, Problem } from "./parts.js";
import { Home } from "./home.js";
import { Topic, Topics } from "./topics.js";
import { Group, Groups } from "./groups.js";
import { Broker, Brokers } from "./brokers.js";
import { Transactions } from "./transactions.js";
import { Rights, Schemas, Subject } from "./rights.js";

const PAGES = [["", "Home", "h"], ["topics", "Topics", "t"], ["groups", "Groups", "g"], ["brokers", "Brokers", "b"],
  ["transactions", "Transactions", "x"], ["schemas", "Schemas", "s"], ["rights", "Users and rights", "u"]];

function place() {
  const parts = location.hash.replace(/^#\/?/, "").split("/").filter(Boolean);
  try { return parts.map(decodeURIComponent); } catch { return []; }
}

function Page({ parts: [page = "", name, tab, ...rest] }) {
  if (page === "topics") return name === undefined ? html`<${Topics} />` : html`<${Topic} key=${name} name=${name} tab=${tab} rest=${rest} />`;
  if (page === "groups") return name === undefined ? html`<${Groups} />` : html`<${Group} key=${name} name=${name} />`;
  if (page === "brokers") return name === undefined ? html`<${Brokers} />` : html`<${Broker} key=${name} name=${name} />`;
  if (page === "transactions") return html`<${Transactions} />`;
  if (page === "schemas") return name === undefined ? html`<${Schemas} />` : html`<${Subject} key=${name} name=${name} />`;
  if (page === "rights") return html`<${Rights} tab=${name} />`;
  if (page === "") return html`<${Home} />`;
  return html`<div class="problem" role="alert">There is no such page: <a href="#/">go home</a>.</div>`;
}

function LoginForm({ session, onIn, onCancel }) {
  const [given, setGiven] = useState({ username: "", password: "", token: "" });
  const [error, setError] = useState(null);
  const [busy, setBusy] = useState(false);
  const input = (name) => (event) => setGiven({ ...given, [name]: event.currentTarget.value });
  const submit = async (event) => {
    event.preventDefault();
    setBusy(true); setError(null);
    try { await post("/session", given.token ? { token: given.token } : { username: given.username, password: given.password }); onIn(); }
    catch (problem) { setError(problem.status === 401 ? new ApiProblem(0, problem.message) : problem); }
    setBusy(false);
  };
  return html`
    <main class="login"><form class="panel" onSubmit=${submit} aria-label="Log in">
      <p class="brand">ottla <span>console</span></p>
      <h1 tabindex="-1">Log in</h1>
      <p class="muted">With a user of the cluster at ${session.bootstrap}. You can do here what that user may do.</p>
      <${Problem} error=${error} />
      <${Field} label="User"><input autocomplete="username" autofocus value=${given.username} onInput=${input("username")} /><//>
      <${Field} label="Password"><input type="password" autocomplete="current-password" value=${given.password} onInput=${input("password")} /><//>
      <details><summary>Or a token</summary><${Field} label="Token"><input autocomplete="off" value=${given.token} onInput=${input("token")} /><//></details>
      <div class="buttons">${onCancel && html`<button type="button" onClick=${onCancel}>Cancel</button>`}<button type="submit" class="main" disabled=${busy}>${busy ? "Trying…" : "Log in"}</button></div>
    </form></main>`;
}

const THEMES = { auto: "As the system", light: "Light", dark: "Dark" };
function useTheme() {
  const [theme, setTheme] = useState(localStorage.getItem("ottla-theme") || "auto");
  useEffect(() => {
    if (theme === "auto") delete document.documentElement.dataset.theme; else document.documentElement.dataset.theme = theme;
    localStorage.setItem("ottla-theme", theme);
  }, [theme]);
  return [theme, setTheme];
}

function useKeys(onHelp) {
  useEffect(() => {
    let isGo = false;
    const pressed = (event) => {
      if (event.ctrlKey || event.metaKey || event.altKey || event.target.matches("input, textarea, select") || document.querySelector("dialog[open]")) return;
      if (isGo) {
        isGo = false;
        const page = PAGES.find(([, , key]) => key === event.key);
        if (page) { event.preventDefault(); location.hash = `#/${page[0]}`; }
      } else if (event.key === "g") isGo = true;
      else if (event.key === "/") { const box = document.querySelector("input.search"); if (box) { event.preventDefault(); box.focus(); } }
      else if (event.key === "?") onHelp();
    };
    document.addEventListener("keydown", pressed);
    return () => document.removeEventListener("keydown", pressed);
  }, []);
}

const Help = ({ onClose }) => html`
  <${Dialog} name="Keys" onClose=${onClose}><dl class="keys">
    ${PAGES.map(([, label, key]) => html`<div><dt><kbd>g</kbd> <kbd>${key}</kbd></dt><dd>${label}</dd></div>`)}
    <div><dt><kbd>/</kbd></dt><dd>Search</dd></div><div><dt><kbd>?</kbd></dt><dd>These keys</dd></div><div><dt><kbd>Esc</kbd></dt><dd>Close a window</dd></div></dl><//>`;

function Frame({ session, onLogin, onOut }) {
  const [parts, setParts] = useState(place());
  const [theme, setTheme] = useTheme();
  const [isHelp, setHelp] = useState(false);
  const isFirst = useRef(true);
  useKeys(() => setHelp(true));
  useEffect(() => {
    const moved = () => { setParts(place()); scrollTo(0, 0); };
    addEventListener("hashchange", moved);
    return () => removeEventListener("hashchange", moved);
  }, []);
  const now = parts[0] || "";
  useEffect(() => {
    const page = PAGES.find(([key]) => key === now);
    document.title = `${parts[1] || (page ? page[1] : "Ottla")} – Ottla console`;
    if (isFirst.current) isFirst.current = false;
    else if (!document.activeElement.matches("main input")) { // who types already is not interrupted
      const title = document.querySelector("main h1"); if (title) title.focus({ preventScroll: true }); }
  }, [parts.slice(0, 2).join("/")]);
  return html`
    <a class="skip" href="#main" onClick=${(e) => { e.preventDefault(); document.getElementById("main").focus(); }}>To the page</a>
    <aside>
      <p class="brand">ottla <span>console</span></p>
      <nav aria-label="Pages of the console">${PAGES.map(([key, label]) => html`<a href=${`#/${key}`} aria-current=${key === now ? "page" : null}>${label}</a>`)}</nav>
      <div class="foot">
        <p class="muted">${session.user ? html`${session.user} <button type="button" class="quiet" onClick=${onOut}>Log out</button>` : session.takes_logins ? html`<button type="button" class="quiet" onClick=${onLogin}>Log in</button>` : ""}</p>
        <p class="muted">${session.may_write ? "Changes are allowed" : "Only reads"}</p>
        <label class="unseen" for="theme">Colours</label>
        <select id="theme" value=${theme} onChange=${(e) => setTheme(e.currentTarget.value)}>${Object.entries(THEMES).map(([key, label]) => html`<option value=${key}>${label}</option>`)}</select>
        <button type="button" class="quiet" onClick=${() => setHelp(true)}>Keys</button>
        <p class="muted version">Ottla ${session.version}<br /><code>${session.bootstrap.replaceAll(",", " ")}</code></p>
      </div>
    </aside>
    <main id="main" tabindex="-1"><${Page} parts=${parts} /></main>
    <${ActionPlace} />
    ${isHelp && html`<${Help} onClose=${() => setHelp(false)} />`}`;
}

function App() {
  const [session, setSession] = useState(null);
  const [error, setError] = useState(null);
  const [isLogin, setLogin] = useState(false);
  const load = async () => {
    try { setSession(await get("/session")); setError(null); setLogin(false); }
    catch (problem) {
      if (problem.status === 401) setSession((old) => ({ ...(old || { bootstrap: "this gateway" }), user: null, requires_login: true }));
      else setError(problem);
    }
  };
  useEffect(() => { load(); return onLoggedOut(() => setSession((old) => old && old.requires_login ? { ...old, user: null } : old)); }, []);
  if (error && !session) return html`<main class="login"><div class="panel"><${Problem} error=${error} /><button type="button" onClick=${load}>Try again</button></div></main>`;
  if (!session) return html`<p class="boot">Loading the console…</p>`;
  if (isLogin || (session.requires_login && !session.user)) return html`<${LoginForm} session=${session} onIn=${load} onCancel=${isLogin && !session.requires_login ? () => setLogin(false) : null} />`;
  return html`<${Frame} session=${session} onLogin=${() => setLogin(true)} onOut=${async () => { await remove("/session"); load(); }} />`;
}

render(html`<${App} />`, document.getElementById("app"));
