package promotion

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"

	"urr.guru/pkg/ids"
)

// Message is what the queue carries for a request. It names the request and its user, so that one
// read finds the request and the user's lock; everything else is in the table.
type Message struct {
	RequestID string `json:"requestId"`
	EventID   string `json:"eventId"`
	UserID    string `json:"userId"`
	EventType Type   `json:"eventType"`
	Gen       int64  `json:"gen,omitempty"`
}

// MessageOf is the message of a request's present generation.
func MessageOf(r *Request) Message {
	return Message{RequestID: r.RequestID, EventID: r.EventID, UserID: r.UserID, EventType: r.EventType, Gen: r.Gen}
}

func (m Message) Body() string {
	b, _ := json.Marshal(m) // strings and numbers always marshal
	return string(b)
}

func (m Message) GenText() string { return strconv.FormatInt(m.Gen, 10) }

// DecodeMessage reads a body. An error means that it can never be read.
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

// Group is the FIFO group: first come is settled in one order per event.
func (m Message) Group() string {
	if m.EventType == Lottery {
		return m.EventID + "#" + LotteryGroup(m.RequestID)
	}
	return m.EventID
}

// DeduplicationID is equal for all messages of one generation, so that the queue takes only the first
// of five minutes. copyID distinguishes a copy that is sent because the message was lost.
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

// Delivery is a message as the queue gave it.
type Delivery struct {
	Body, Group    string
	ID             string // of the message, equal for all receipts
	SequenceNumber string // its place in the order of the queue, a decimal number
	SentAt         int64  // when the queue took it, by the queue's clock
	Receives       int    // how often it was received, this time included
	Handle         string // of this receipt
}
