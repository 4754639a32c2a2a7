// A clock that runs on in hidden tabs: browsers slow a hidden page's timers down to one a minute, not a worker's.

onmessage = (message: MessageEvent<{ id: number; ms: number }>) => {
  const { id, ms } = message.data;
  setTimeout(() => postMessage(id), ms);
};
