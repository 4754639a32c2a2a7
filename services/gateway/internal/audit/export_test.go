package audit

// MaxWaiting bounds the stream.
const MaxWaiting = maxWaiting
