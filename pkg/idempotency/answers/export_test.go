package answers

// Find is the statement that every request with a key runs.
const Find = find
