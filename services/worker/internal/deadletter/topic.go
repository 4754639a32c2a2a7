package deadletter

import "context"

// TopicLetters reads the dead letters of Kafka topics.
type TopicLetters interface {
	// List reads a page, about the latest first. RedrivenAt is not known here.
	List(ctx context.Context, topic, cursor string, limit int) (page []Letter, next string, err error)
	// Get returns the letters with these ids that exist.
	Get(ctx context.Context, topic string, ids []string) ([]Letter, error)
	// Republish publishes dead letters unchanged to their topic in this order, and waits until they
	// are stored.
	Republish(ctx context.Context, topic string, ids []string) error
}

// Topic lists and redrives the dead letters of one Kafka topic. They stay in their dead-letter
// topic for good; the table says which of them were redriven.
type Topic struct {
	name    string
	letters TopicLetters
	store   Store
}

// Topics makes a Topic for each name.
func Topics(letters TopicLetters, store Store, names ...string) map[string]*Topic {
	out := map[string]*Topic{}
	for _, name := range names {
		out[name] = &Topic{name: name, letters: letters, store: store}
	}
	return out
}

func (t *Topic) list(ctx context.Context, cursor string, limit int) (page []Letter, next string, err error) {
	page, next, err = t.letters.List(ctx, t.name, cursor, limit)
	if err != nil {
		return nil, "", err
	}
	return page, next, t.noteRedriven(ctx, page)
}

// noteRedriven sets the times at which letters were redriven, from the table.
func (t *Topic) noteRedriven(ctx context.Context, letters []Letter) error {
	ids := make([]string, len(letters))
	for i := range letters {
		ids[i] = letters[i].ID
		letters[i].Body = truncated(letters[i].Body)
	}
	at, err := t.store.Redriven(ctx, t.name, ids)
	for i := range letters {
		letters[i].RedrivenAt = at[letters[i].ID]
	}
	return err
}

func (t *Topic) get(ctx context.Context, ids []string) ([]Letter, error) {
	out, err := t.letters.Get(ctx, t.name, ids)
	if err != nil {
		return nil, err
	}
	return out, t.noteRedriven(ctx, out)
}

// redrive publishes letters again, and then stores that. If the process dies in between, the
// letters may be published twice; consumers ignore that while their inbox remembers an event.
func (t *Topic) redrive(ctx context.Context, letters []Letter) (refused []string, err error) {
	ids := make([]string, len(letters))
	for i, l := range letters {
		ids[i] = l.ID
	}
	if err := t.letters.Republish(ctx, t.name, ids); err != nil {
		return nil, err
	}
	return nil, t.store.NoteRedriven(ctx, t.name, ids)
}
