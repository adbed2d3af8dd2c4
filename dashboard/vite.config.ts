import { gzipSync } from "node:zlib";
import { defineConfig, type Plugin } from "vite";

/** All files of the page together, compressed. */
const MAX_COMPRESSED_BYTES = 500_000;

/** Writes each file a second time, compressed, so that the server compresses nothing. */
function compressed(): Plugin {
  return {
    name: "compressed",
    apply: "build",
    generateBundle: {
      order: "post",
      handler(_options, bundle) {
        let totalBytes = 0;
        for (const [name, file] of Object.entries(bundle)) {
          const source = gzipSync(file.type === "chunk" ? file.code : file.source, { level: 9 });
          this.emitFile({ type: "asset", fileName: `${name}.gz`, source });
          totalBytes += source.length;
        }
        if (totalBytes > MAX_COMPRESSED_BYTES) {
          this.error(`the page has ${totalBytes} bytes compressed; at most ${MAX_COMPRESSED_BYTES} are allowed`);
        }
      },
    },
  };
}

export default defineConfig({
  base: "./",
  plugins: [compressed()],
  build: {
    outDir: "../src/flinkpy/rest/page",
    emptyOutDir: true,
    target: "es2022",
    // The Content-Security-Policy allows neither inline scripts nor data URLs of scripts.
    modulePreload: { polyfill: false },
    assetsInlineLimit: 0,
    reportCompressedSize: false,
  },
});
