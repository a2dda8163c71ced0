
"use strict";
const byId = (id) => document.getElementById(id);
const dataOf = (id) => JSON.parse(byId(id).textContent);
const counted = (number, noun) => `${number.toLocaleString("en")} ${noun}${number === 1 ? "" : "s"}`;

/** As the programs write shares: only all is 100%, only nothing is 0%. */
function percent(share) {
  const of100 = 100 * share;
  if (of100 <= 0) return "0%";
  if (of100 < 0.1) return "<0.1%";
  if (of100 < 9.95) return `${of100.toFixed(1)}%`;
  if (of100 < 99.5) return `${of100.toFixed(0)}%`;
  return of100 < 100 ? ">99%" : "100%";
}

/** An element with text, which never becomes markup. */
function element(name, attributes = {}, ...content) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...content);
  return made;
}

/** Light, dark, or as the system has it; a page from disk may have no memory. */
function setTheme(theme) {
  if (theme) document.documentElement.dataset.theme = theme;
  try {
    if (theme) localStorage.setItem("theme", theme);
  } catch { /* no memory */ }
}
function switchTheme() {
  const shown = document.documentElement.dataset.theme;
  const isDark = shown ? shown === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  setTheme(isDark ? "light" : "dark");
}
try {
  setTheme(localStorage.getItem("theme"));
} catch { /* no memory */ }
function switchHelp() {
  const help = byId("help");
  if (help.open) help.close();
  else help.showModal();
  // The focus goes to the button at its end.
  help.scrollTop = 0;
}
byId("theme").addEventListener("click", switchTheme);
byId("help-open").addEventListener("click", switchHelp);
// A click beside it closes it.
byId("help").addEventListener("click", (event) => event.target === byId("help") && switchHelp());

/** Calls what belongs to a key, unless something is being typed. */
function onKeys(actions) {
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.target.matches("input[type=search]")) return;
    const action = { t: switchTheme, "?": switchHelp, ...actions }[event.key];
    if (!action || (byId("help").open && event.key !== "?" && event.key !== "t")) return;
    event.preventDefault();
    action();
  });
}
