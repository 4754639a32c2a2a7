package promotion

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"urr.guru/pkg/ids"
)

// MaxMembers is the largest number of requests in a message of the queue. The requests of ten
// messages, which one call receives, fit one transaction of DynamoDB.
const MaxMembers = 9

// Message is the part of a request that the queue transports: the ids of the request and its user,
// so that one read finds the request and the user's lock. Everything else is in the table. Requests
// of one group that are sent together share a message of the queue, in their order.
type Message struct {
	RequestID string `json:"requestId"`
	EventID   string `json:"-"`
	UserID    string `json:"userId"`
	EventType Type   `json:"-"`
	Gen       int64  `json:"gen,omitempty"`
}

// MessageOf makes the message of a request in its present generation.
func MessageOf(r *Request) Message {
	return Message{RequestID: r.RequestID, EventID: r.EventID, UserID: r.UserID, EventType: r.EventType, Gen: r.Gen}
}

// messageBody is the JSON of a message of the queue.
type messageBody struct {
	EventID   string    `json:"eventId"`
	EventType Type      `json:"eventType"`
	Members   []Message `json:"members"`
}

// Body returns the body of a message of the queue with these requests, all of one group.
func Body(requests ...Message) string {
	b, _ := json.Marshal(messageBody{requests[0].EventID, requests[0].EventType, requests}) // strings and numbers always marshal
	return string(b)
}

func (m Message) GenText() string { return strconv.FormatInt(m.Gen, 10) }

// DecodeBody reads the requests in a message of the queue, one or more. An error means that the
// body can never be read.
func DecodeBody(body string) ([]Message, error) {
	var b messageBody
	if err := json.Unmarshal([]byte(body), &b); err != nil {
		return nil, fmt.Errorf("message: %w", err)
	}
	if len(b.Members) == 0 || !ids.ValidEventID(b.EventID) {
		return nil, errors.New("message: it has no members, or no event")
	}
	for i := range b.Members {
		m := &b.Members[i]
		if !ids.ValidUUID(m.RequestID) || !ids.ValidUser(m.UserID) || m.Gen < 0 {
			return nil, fmt.Errorf("message: an id of member %d is not well-formed", i)
		}
		m.EventID, m.EventType = b.EventID, b.EventType
	}
	return b.Members, nil
}

// Group returns the FIFO group of the message. All requests to a first-come promotion are in one
// group, so that they are processed in one order.
func (m Message) Group() string {
	if m.EventType == Lottery {
		return m.EventID + "#" + LotteryGroup(m.RequestID)
	}
	return m.EventID
}

// DeduplicationID is equal for all messages of one generation of a request: of those sent within
// five minutes the queue accepts only the first. copyID makes the id of a repeated message differ.
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

// Outgoing is a request to send.
type Outgoing struct {
	Message

	CopyID string // distinguishes a copy of a lost message; empty for the message itself
}

// DeduplicationID returns the id of a message, which depends on the requests in it. A request that
// is sent again in another combination is in two messages; the second one has no effect.
func DeduplicationID(requests []Outgoing) string {
	all := make([]string, len(requests))
	for i, m := range requests {
		all[i] = m.DeduplicationID(m.CopyID)
	}
	if len(all) == 1 {
		return all[0]
	}
	sum := sha256.Sum256([]byte(strings.Join(all, " ")))
	return hex.EncodeToString(sum[:])
}

// Delivery is a message as it was received from the queue.
type Delivery struct {
	Body, Group    string
	ID             string // id of the message, the same each time it is received
	SequenceNumber string // its position in the queue, a decimal number
	SentAt         int64  // when the queue accepted it, by the queue's clock
	Receives       int    // how often it was received, this time included
	Handle         string // for deleting or releasing the received message
}
