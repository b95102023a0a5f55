// Live parts of pages, keys, and Enter that sends. Everything works without it, but by reloading.
"use strict";

for (const part of document.querySelectorAll("[data-live]")) {
  const source = new EventSource(part.dataset.live);
  // The server renders and escapes the part with the template of the page itself.
  source.onmessage = (event) => {
    const atEnd = window.innerHeight + window.scrollY >= document.body.scrollHeight - 80;
    const isOnRow = row >= 0 && part.contains(document.activeElement);
    part.innerHTML = event.data;
    if (isOnRow) stand(row);
    if (atEnd && part.classList.contains("talk")) window.scrollTo(0, document.body.scrollHeight);
  };
  window.addEventListener("pagehide", () => source.close());
}

for (const form of document.querySelectorAll("form[data-say]")) {
  const text = form.querySelector("textarea");
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    const answer = await fetch(location.pathname, { method: "POST", body: new URLSearchParams(new FormData(form)) });
    if (answer.ok) text.value = "";
    text.focus();
  });
  text.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && !event.shiftKey && !event.isComposing) {
      event.preventDefault();
      form.requestSubmit();
    }
  });
}

// A command is copied by a click or by Enter; where the browser refuses, it is selected.
function copy(code) {
  const range = document.createRange();
  range.selectNodeContents(code);
  getSelection().removeAllRanges();
  getSelection().addRange(range);
  const done = () => {
    code.classList.add("copied");
    setTimeout(() => code.classList.remove("copied"), 1500);
  };
  if (navigator.clipboard) navigator.clipboard.writeText(code.textContent).then(done, () => {});
}
document.addEventListener("click", (event) => {
  const code = event.target.closest("[data-copy]");
  if (code) copy(code);
});

let row = -1;

// Goes to a row of the tables by number.
function stand(number) {
  const rows = [...document.querySelectorAll("tbody tr")];
  row = Math.min(rows.length - 1, Math.max(0, number));
  if (!rows.length) return;
  rows[row].tabIndex = -1;
  rows[row].focus();
}
document.addEventListener("keydown", (event) => {
  if (event.target.closest("input, textarea") || event.ctrlKey || event.metaKey || event.altKey) return;
  const pages = [...document.querySelectorAll("nav a")];
  const rows = [...document.querySelectorAll("tbody tr")];
  const field = { "/": "form.find input", f: "form.filter input" }[event.key];
  if (field) {
    const input = document.querySelector(field);
    if (input) { event.preventDefault(); input.focus(); input.select(); }
  } else if (pages[event.key - 1]) {
    location.href = pages[event.key - 1].href;
  } else if ((event.key === "j" || event.key === "k") && rows.length) {
    stand(row + (event.key === "j" ? 1 : -1));
  } else if (event.key === "Enter" && rows[row]) {
    const link = rows[row].querySelector("a");
    if (link) location.href = link.href;
  }
});
