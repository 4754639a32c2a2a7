package promotion

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"

	"urr.guru/pkg/ids"
)

// Message is what the queue transports of a request: the ids of the request and its user, so that
// one read finds the request and the user's lock. Everything else is in the table.
type Message struct {
	RequestID string `json:"requestId"`
	EventID   string `json:"eventId"`
	UserID    string `json:"userId"`
	EventType Type   `json:"eventType"`
	Gen       int64  `json:"gen,omitempty"`
}

// MessageOf makes the message of a request in its present generation.
func MessageOf(r *Request) Message {
	return Message{RequestID: r.RequestID, EventID: r.EventID, UserID: r.UserID, EventType: r.EventType, Gen: r.Gen}
}

func (m Message) Body() string {
	b, _ := json.Marshal(m) // strings and numbers always marshal
	return string(b)
}

func (m Message) GenText() string { return strconv.FormatInt(m.Gen, 10) }

// DecodeMessage reads the body of a message. An error means that the body can never be read.
func DecodeMessage(body string) (Message, error) {
	var m Message
	if err := json.Unmarshal([]byte(body), &m); err != nil {
		return m, fmt.Errorf("message: %w", err)
	}
	if !ids.ValidUUID(m.RequestID) || !ids.ValidEventID(m.EventID) || !ids.ValidUser(m.UserID) || m.Gen < 0 {
		return m, errors.New("message: an id is not well-formed")
	}
	return m, nil
}

// Group returns the FIFO group of the message. All requests to a first-come promotion are in one
// group, so that they are settled in one order.
func (m Message) Group() string {
	if m.EventType == Lottery {
		return m.EventID + "#" + LotteryGroup(m.RequestID)
	}
	return m.EventID
}

// DeduplicationID is equal for all messages of one generation of a request: of those sent within
// five minutes the queue takes only the first. For a copy of a lost message copyID makes it differ.
func (m Message) DeduplicationID(copyID string) string {
	id := m.RequestID
	if m.Gen > 0 {
		id += "-r" + m.GenText()
	}
	if copyID != "" {
		id += "-" + copyID
	}
	return id
}

// Outgoing is a message to send.
type Outgoing struct {
	Message

	CopyID string // distinguishes a copy of a lost message; empty for the message itself
}

// Delivery is a message as it was received from the queue.
type Delivery struct {
	Body, Group    string
	ID             string // of the message, equal each time it is received
	SequenceNumber string // its place in the order of the queue, a decimal number
	SentAt         int64  // when the queue took it, by the queue's clock
	Receives       int    // how often it was received, this time included
	Handle         string // with which this receipt is deleted or released
}
