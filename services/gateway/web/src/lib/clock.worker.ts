// A clock that keeps running in hidden tabs: browsers throttle timers of hidden pages to one a
// minute, but not those of workers.

onmessage = (message: MessageEvent<{ id: number; ms: number }>) => {
  const { id, ms } = message.data;
  setTimeout(() => postMessage(id), ms);
};
