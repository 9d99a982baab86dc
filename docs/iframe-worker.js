/* Browsers start no worker of a page that was opened from the disk. There the search runs in a hidden frame. */
if (location.protocol === "file:") {
  window.IFrameWorker = window.Worker = class extends EventTarget {
    constructor(url) {
      super();
      const frame = document.createElement("iframe");
      frame.hidden = true;
      document.body.append(frame);
      const inner = frame.contentWindow;
      inner.document.open(); // so that no browser replaces the empty page later
      inner.document.write("<body></body>");
      inner.document.close();
      inner.postMessage = (data) => this.dispatchEvent(new MessageEvent("message", { data }));
      const script = inner.document.createElement("script");
      script.src = new URL(url, document.baseURI);
      this.inner = new Promise((resolve) => (script.onload = () => resolve(inner)));
      inner.document.body.append(script);
    }

    postMessage(data) {
      this.inner.then((inner) => inner.dispatchEvent(new inner.MessageEvent("message", { data })));
    }
  };
}
