import { defineConfig } from "vite";

/* `base` is relative: the server may be mounted under a path, and index.html's <base> says which. */
export default defineConfig({
  base: "./",
  build: {
    target: "es2022",
    modulePreload: { polyfill: false }, // it would be an inline script, which the policy of the page refuses
    assetsInlineLimit: 0,
    reportCompressedSize: false,
  },
  server: { proxy: { "/api": "http://127.0.0.1:8080" } },
});
