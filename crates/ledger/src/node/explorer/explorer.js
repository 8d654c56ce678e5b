"use strict";
// Pages of the explorer. Everything that comes from the ledger goes into the page as text (textContent), never as markup.

/** How often the lists that change are read again, in milliseconds. */
const REFRESH_MS = 2000;

let refresh = null;

/** An element with attributes and children; a child that is no element is text. */
function element(tag, attributes, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  for (const child of children) {
    made.append(child instanceof Node ? child : document.createTextNode(String(child)));
  }
  return made;
}

function table(titles, rows) {
  const head = element("tr", {}, ...titles.map((title) => element("th", {}, title)));
  return element("table", {}, element("thead", {}, head), element("tbody", {}, ...rows));
}

function row(...cells) {
  return element("tr", {}, ...cells.map((cell) => (cell instanceof Node && cell.tagName === "TD" ? cell : element("td", {}, cell))));
}

function hash(text) {
  return element("td", { class: "hash" }, text);
}

function mark(isGood, good, bad) {
  return element("span", { class: isGood ? "good" : "bad" }, isGood ? good : bad);
}

function link(target, text) {
  return element("a", { href: target }, text);
}

function pairs(entries) {
  return element("dl", {}, ...entries.flatMap(([name, value, kind]) => [element("dt", {}, name), element("dd", kind ? { class: kind } : {}, value)]));
}

function lines(title, texts) {
  if (texts.length === 0) return [];
  return [element("h2", {}, title), element("ul", {}, ...texts.map((text) => element("li", {}, text)))];
}

function show(...children) {
  document.getElementById("view").replaceChildren(...children);
}

async function ask(path) {
  const answer = await fetch("/api/" + path);
  if (!answer.ok) throw new Error((await answer.text()).trim());
  return answer.json();
}

async function showBlocks(below) {
  const found = await ask(below ? "blocks?below=" + encodeURIComponent(below) : "blocks");
  const rows = found.blocks.map((block) =>
    row(link("#/block/" + block.height, block.height), block.transactions, block.succeeded, block.votes, hash(block.hash)));
  const last = found.blocks.at(-1);
  const pages = element("p", {});
  if (below) pages.append(link("#/blocks", "newest"), " ");
  if (last && last.height > 1) pages.append(link("#/blocks/" + last.height, "older"));
  show(element("h2", {}, found.height + " blocks"), table(["block", "transactions", "succeeded", "votes", "hash"], rows), pages);
}

async function showBlock(height, from) {
  const block = await ask("block/" + encodeURIComponent(height) + (from ? "?from=" + encodeURIComponent(from) : ""));
  const votes = block.votes.map((vote) =>
    vote.error ? row(vote.error) : row(vote.member, vote.round, hash(vote.hash), mark(vote.hash === block.hash, "this block", "another block")));
  const transactions = block.transactions.map((one) =>
    row(link("#/transaction/" + block.height + "/" + one.place, block.height + "." + one.place),
      mark(one.has_succeeded, "succeeded", "failed"), one.error ? "" : one.client + " " + one.number, one.error || one.text));
  const pages = element("p", {});
  const next = block.from + block.transactions.length;
  if (block.from > 0) pages.append(link("#/block/" + block.height, "first transactions"), " ");
  if (next < block.count) pages.append(link("#/block/" + block.height + "/" + next, "more transactions"));
  const over = block.takes_over === null ? [] : [element("p", {}, "Ordering service " + block.takes_over + " takes over by this block.")];
  const header = ["hash", "previous", "order", "root", "digest", "state"].map((name) => [name, block[name], "hash"]);
  show(element("h2", {}, "Block " + block.height), ...over, pairs(header),
    element("h2", {}, block.votes.length + " votes"), table(["member", "round", "hash", "is for"], votes),
    element("h2", {}, block.count + " transactions, " + block.succeeded + " succeeded"),
    table(["transaction", "outcome", "client", "statements"], transactions), pages);
}

async function showTransaction(height, place) {
  const one = await ask("transaction/" + encodeURIComponent(height) + "/" + encodeURIComponent(place));
  const facts = [
    ["block", link("#/block/" + one.height, one.height)],
    ["outcome", mark(one.has_succeeded, "succeeded", "failed")],
    ["hash", one.hash, "hash"],
  ];
  if (one.error) {
    show(element("h2", {}, "Transaction " + one.height + "." + one.place), pairs([...facts, ["it does nothing", one.error]]));
    return;
  }
  facts.push(["client", one.client], ["number", one.number]);
  const statements = one.statements.flatMap((statement) => [
    element("pre", {}, statement.text),
    ...(statement.values.length === 0 ? [] : [table(["parameter", "type", "value"], statement.values.map((value, at) =>
      row("$" + (at + 1), value.kind, hash(value.text))))]),
  ]);
  const agreements = one.agreements.map((said) =>
    said.error ? row(said.error) : row(said.member, mark(said.refusal === null, "agrees up to block " + said.until, "refuses: " + said.refusal)));
  show(element("h2", {}, "Transaction " + one.height + "." + one.place), pairs(facts),
    element("h2", {}, "Statements"), ...statements,
    ...(agreements.length === 0 ? [] : [element("h2", {}, "Agreements"), table(["organization", "it"], agreements)]));
}

async function showMembers() {
  const status = await ask("status");
  const rows = status.members.map((member) => {
    const vote = member.consents === null ? "no vote known"
      : mark(member.consents, "consents to block " + member.voted_height, "DISSENTS from block " + member.voted_height);
    return row(member.name, member.height, vote, mark(member.is_reached, "reached", "NOT REACHED"));
  });
  show(element("h2", {}, "Members"), table(["organization", "blocks", "vote", "connection"], rows),
    element("h2", {}, "This organization"),
    pairs([["it", status.state], ["policy", status.policy], ["head", status.head, "hash"]]),
    ...lines("Ordering", status.ordering), ...lines("Not ordered", status.not_ordered ? [status.not_ordered] : []),
    ...lines("No progress", status.stuck ? [status.stuck] : []), ...lines("Tables that are not certified", status.suspects),
    ...lines("Evidence", status.evidence), ...lines("Repairs", status.repairs),
    ...lines("Refused messages", status.refused), ...lines("Agreement policies", status.policies));
}

async function showCheckpoints() {
  const status = await ask("status");
  const rows = status.checkpoints.map((height) => row(link("#/block/" + height, "after block " + height)));
  show(element("h2", {}, rows.length + " checkpoints"), table(["checkpoint"], rows),
    ...lines("The last one was not made", status.checkpoint_failure ? [status.checkpoint_failure] : []));
}

async function showAudit() {
  const status = await ask("status");
  const audit = status.audit;
  const facts = audit === null ? [element("p", {}, "There was no audit in the background since the node was started.")] : [pairs([
    ["of block", link("#/block/" + audit.height, audit.height)],
    ["ended", new Date(audit.ended_at * 1000).toISOString()],
    ["took", audit.took_ms + " ms"],
    ["rows", audit.rows],
    ["found", mark(audit.differing.length === 0, "all tables are what the block certifies", "NOT certified: " + audit.differing.join(", "))],
  ])];
  show(element("h2", {}, "Last audit in the background"), ...facts,
    ...lines("The last one has not read all tables", status.audit_failure ? [status.audit_failure] : []),
    ...lines("Findings", status.audit_findings), ...lines("Repairs", status.repairs));
}

/** The page of an address, and whether it changes by itself. */
function page(parts) {
  switch (parts[0]) {
    case "block": return [() => showBlock(parts[1], parts[2]), false];
    case "transaction": return [() => showTransaction(parts[1], parts[2]), false];
    case "members": return [showMembers, true];
    case "checkpoints": return [showCheckpoints, true];
    case "audit": return [showAudit, true];
    default: return [() => showBlocks(parts[1]), !parts[1]];
  }
}

async function open() {
  clearTimeout(refresh);
  const address = location.hash;
  const parts = address.replace(/^#\/?/, "").split("/");
  for (const entry of document.querySelectorAll("nav a")) {
    entry.classList.toggle("current", entry.getAttribute("href") === "#/" + (parts[0] || "blocks"));
  }
  const [render, changes] = page(parts);
  try {
    await render();
  } catch (error) {
    show(element("p", { class: "bad" }, error.message));
  }
  if (changes && location.hash === address) refresh = setTimeout(open, REFRESH_MS);
}

async function showOrganization() {
  const status = await ask("status");
  document.title = status.name + " - ledger explorer";
  document.getElementById("organization").textContent = "organization \"" + status.name + "\" of network " + status.network;
}

addEventListener("hashchange", open);
open();
showOrganization().catch(() => {});
