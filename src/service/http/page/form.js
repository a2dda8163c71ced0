"use strict";
{
  const form = document.querySelector("form");
  const file = document.getElementById("file");
  const drop = document.getElementById("drop");
  const status = document.getElementById("status");
  const send = () => form.requestSubmit();
  form.addEventListener("submit", () => { status.textContent = "Reading and comparing …"; });
  window.addEventListener("pageshow", () => { status.textContent = ""; });
  file.addEventListener("change", () => { if (file.files.length) send(); });
  document.getElementById("text").addEventListener("keydown", (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) send();
  });
  for (const kind of ["dragover", "dragenter"]) {
    window.addEventListener(kind, (event) => { event.preventDefault(); drop.classList.add("over"); });
  }
  window.addEventListener("dragleave", (event) => { if (!event.relatedTarget) drop.classList.remove("over"); });
  window.addEventListener("drop", (event) => {
    event.preventDefault();
    drop.classList.remove("over");
    if (event.dataTransfer.files.length) {
      file.files = event.dataTransfer.files;
      send();
    }
  });
}
