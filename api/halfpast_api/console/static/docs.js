// The description of the API: finding a call, and copying a command.
"use strict";

const field = document.getElementById("find");
field.closest(".find").hidden = false;
field.addEventListener("input", () => {
  const words = field.value.toLowerCase().split(/\s+/).filter(Boolean);
  for (const link of document.querySelectorAll(".side li a")) {
    const card = document.getElementById(link.hash.slice(1));
    const path = card ? card.querySelector(".path").textContent : "";
    const text = (link.textContent + " " + path).toLowerCase();
    link.parentElement.hidden = !words.every((word) => text.includes(word));
  }
  for (const section of document.querySelectorAll(".side section")) {
    const items = [...section.querySelectorAll("li")];
    section.hidden = items.length > 0 && items.every((item) => item.hidden);
  }
});

for (const figure of document.querySelectorAll("figure")) {
  const button = document.createElement("button");
  button.type = "button";
  button.textContent = "Copy";
  button.addEventListener("click", async () => {
    await navigator.clipboard.writeText(figure.querySelector("pre").textContent);
    button.textContent = "Copied";
    setTimeout(() => { button.textContent = "Copy"; }, 1500);
  });
  if (navigator.clipboard) figure.querySelector("figcaption").append(button);
}
