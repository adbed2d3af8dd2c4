/** Reads the text of an error as the REST API gives it: links `Type: message` with a traceback each. Pure. */

export type Stack = {
  /** The last line of the innermost error: what a person wants to read first. */
  rootCause: string;
  /** The first traceback with frames, which is that of the user's code; empty if there is none. */
  userTraceback: string;
};

const CAUSE = "\nCaused by: ";
const TRACEBACK = "Traceback (most recent call last):";

export function readStack(text: string): Stack {
  const links = text.trim().split(CAUSE);
  const withFrames = links.find((link) => link.includes(TRACEBACK));
  const userTraceback = withFrames ? withFrames.slice(withFrames.indexOf(TRACEBACK)).trimEnd() : "";
  return { rootCause: userTraceback ? lastLine(userTraceback) : (links.at(-1)?.split("\n")[0] ?? ""), userTraceback };
}

/** The message of a Python error follows its last frame. It begins in the first column. */
function lastLine(traceback: string): string {
  const lines = traceback.split("\n").filter((line) => line && !line.startsWith(" ") && !line.startsWith("Traceback "));
  return lines.at(-1) ?? "";
}
