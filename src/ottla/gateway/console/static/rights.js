import { html, useState } from "./preact.js";
import { path, query, useApi } from "./api.js";
import { number } from "./format.js";
import { Asked, Command, link, Pager, Panel, SearchBox, State, Table, Tabs, Title } from "./parts.js";

function Acls() {
  const [view, setView] = useState({ search: "", page: 1 });
  const list = useApi(`/acls${query(view)}`);
  return html`<div class="page">
    <div class="bar"><${SearchBox} label="Search rules" value=${view.search} onSearch=${(search) => setView({ search, page: 1 })} /></div>
    <${Asked} of=${list}>${(data) => html`
      <${Table} name="Rules" rows=${data.acls} empty=${data.note || (view.search ? "No rule has this in it." : "There are no rules: only super users may do anything.")} columns=${[
        { label: "Who", show: (row) => row.principal }, { label: "", show: (row) => html`<${State} kind=${row.permission === "deny" ? "bad" : "good"}>${row.permission === "deny" ? "must not" : "may"}<//>` },
        { label: "Do", show: (row) => row.operation }, { label: "With", show: (row) => `${row.resource_type.replaceAll("_", " ")} ${row.resource}` },
        { label: "Names", show: (row) => (row.pattern === "prefixed" ? "that begin so" : "exactly so") }, { label: "From", show: (row) => (row.host === "*" ? "anywhere" : row.host) }]} />
      <${Pager} busy=${list.isLoading} facts=${data} noun="rules" onPage=${(page) => setView({ ...view, page })} /><${Command} line=${data.command} />`}<//></div>`;
}

function Users() {
  const [view, setView] = useState({ search: "", page: 1 });
  const list = useApi(`/users${query(view)}`);
  return html`<div class="page">
    <div class="bar"><${SearchBox} label="Search users" value=${view.search} onSearch=${(search) => setView({ search, page: 1 })} /></div>
    <${Asked} of=${list}>${(data) => html`
      <${Table} name="Users" rows=${data.users} keyOf=${(row) => row.name} empty="No user logs in with a password." columns=${[
        { label: "User", show: (row) => row.name }, { label: "Logs in by", show: (row) => row.mechanisms.join(", ") }]} />
      <${Pager} busy=${list.isLoading} facts=${data} noun="users" onPage=${(page) => setView({ ...view, page })} /><${Command} line=${data.command} />`}<//></div>`;
}

function Quotas() {
  const list = useApi("/quotas");
  return html`<${Asked} of=${list}>${(data) => html`
    <${Table} name="Quotas" rows=${data.quotas} empty="There are no quotas." columns=${[
      { label: "For", show: (row) => row.entity }, { label: "Limits", show: (row) => Object.entries(row.limits).map(([name, value]) => `${name} ${number(value)}`).join(", ") }]} />
    <${Command} line=${data.command} />`}<//>`;
}

export function Rights({ tab = "acls" }) {
  return html`<div class="page">
    <${Title} text="Users and rights" />
    <${Tabs} name="Users and rights" now=${tab} items=${[["acls", "Rules", link("rights")], ["users", "Users", link("rights", "users")], ["quotas", "Quotas", link("rights", "quotas")]]} />
    ${tab === "users" ? html`<${Users} />` : tab === "quotas" ? html`<${Quotas} />` : html`<${Acls} />`}</div>`;
}

export function Schemas() {
  const [view, setView] = useState({ search: "", page: 1 });
  const list = useApi(`/schemas${query(view)}`);
  return html`<div class="page">
    <${Title} text="Schemas"><${SearchBox} label="Search subjects" value=${view.search} onSearch=${(search) => setView({ search, page: 1 })} /><//>
    <${Asked} of=${list}>${(data) => html`
      <${Table} name="Subjects" rows=${data.subjects} keyOf=${(row) => row.subject} empty=${view.search ? "No subject has this in its name." : "No schema is registered yet."} columns=${[
        { label: "Subject", show: (row) => html`<a href=${link("schemas", row.subject)}>${row.subject}</a>` }, { label: "Type", show: (row) => row.type || "–" },
        { label: "Versions", right: true, show: (row) => number(row.versions) }, { label: "Latest id", right: true, show: (row) => row.id }]} />
      <${Pager} busy=${list.isLoading} facts=${data} noun="subjects" onPage=${(page) => setView({ ...view, page })} /><${Command} line=${data.command} />`}<//></div>`;
}

const indented = (text) => { try { return JSON.stringify(JSON.parse(text), null, 2); } catch { return text; } };

export function Subject({ name }) {
  const asked = useApi(path("schemas", name));
  return html`<div class="page">
    <${Title} text=${name} under=${html`<a href="#/schemas">Schemas</a>`} />
    <${Asked} of=${asked}>${(data) => html`
      <p class="muted">Compatibility: ${data.level}</p>
      ${data.versions.map((each) => html`<${Panel} key=${each.version} name=${`Version ${each.version}`} tools=${html`<small class="muted">${each.type}, id ${each.id}</small>`}><pre tabindex="0">${indented(each.text)}</pre><//>`)}
      <${Command} line=${data.command} />`}<//></div>`;
}
