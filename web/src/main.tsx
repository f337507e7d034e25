import { render } from "preact";
import { App } from "./app.ts";
import { Page } from "./ui/Page.tsx";
import "./styles/base.css";
import "./styles/layout.css";
import "./styles/chat.css";
import "./styles/code.css";

const app = new App(new URL(".", document.baseURI).href, localStorage);
const root = document.getElementById("app");
if (root !== null) {
  render(<Page app={app} />, root);
  void app.start();
}
