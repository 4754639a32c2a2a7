package fakes

import (
	"encoding/json"
	"net/http"
	"time"
)

// Reply is the answer to a call.
type Reply struct {
	Status int
	Type   string // the content type; empty: JSON
	Body   []byte
	// Forgotten says that the answer is not kept under the call's idempotency key.
	Forgotten bool
}

// JSON makes a Reply whose body is the value as JSON.
func JSON(status int, value any) Reply {
	body, err := json.Marshal(value)
	if err != nil {
		return Reply{Status: http.StatusInternalServerError, Body: []byte(err.Error())}
	}
	return Reply{Status: status, Body: body}
}

func (a Reply) write(w http.ResponseWriter) {
	if a.Type == "" {
		a.Type = "application/json"
	}
	w.Header().Set("Content-Type", a.Type)
	w.WriteHeader(a.Status)
	_, _ = w.Write(a.Body) // an error means that the client has left
}

// kept is the first call under an idempotency key, with its answer.
type kept struct {
	call    string // the address and parameters of the first call
	at      time.Time
	running bool
	answer  Reply
}

// once runs act once per idempotency key while the key is kept. Without a key it always runs act.
func (c *Calls) once(r *http.Request, body []byte, act func() Reply) Reply {
	key := r.Header.Get("Idempotency-Key")
	if key == "" || r.Method != http.MethodPost {
		return act()
	}
	call := r.URL.Path + "\n" + string(body)
	entry, answer := c.claimKey(key, call)
	if entry == nil {
		return answer
	}
	answer = act()
	c.mu.Lock()
	defer c.mu.Unlock()
	if entry.running, entry.answer = false, answer; answer.Forgotten {
		delete(c.keys, key)
	}
	return answer
}

// claimKey returns a new entry if the call must run, otherwise nil and the answer to return.
func (c *Calls) claimKey(key, call string) (entry *kept, answer Reply) {
	c.mu.Lock()
	defer c.mu.Unlock()
	old, now := c.keys[key], c.opts.Now()
	switch {
	case old == nil || !old.running && !now.Before(old.at.Add(c.opts.KeyLife)):
		entry = &kept{call: call, at: now, running: true}
		c.keys[key] = entry
		return entry, Reply{}
	case c.opts.Compares && old.call != call:
		return nil, c.opts.Mismatch
	case old.running:
		return nil, c.opts.Running
	default:
		return nil, old.answer
	}
}
