package awsproxy

import (
	"encoding/json"
	"net/http"
	"strings"
)

// Item is an item of a transaction.
type Item struct {
	PK, SK string
	// Whole is the item or the update, as JSON.
	Whole json.RawMessage
}

// Items are those that a TransactWriteItems writes or checks, in their order; nil for other calls.
func (c Call) Items() []Item {
	if c.Name != "TransactWriteItems" {
		return nil
	}
	type key struct {
		PK, SK struct{ S string }
	}
	var in struct {
		TransactItems []map[string]json.RawMessage
	}
	if json.Unmarshal(c.Body, &in) != nil {
		return nil
	}
	out := make([]Item, len(in.TransactItems))
	for i, it := range in.TransactItems {
		for _, whole := range it { // one member: Put, Update, Delete or ConditionCheck
			var write struct {
				Item, Key *key
			}
			if json.Unmarshal(whole, &write) != nil {
				continue
			}
			k := write.Item
			if k == nil {
				k = write.Key
			}
			if k != nil {
				out[i] = Item{PK: k.PK.S, SK: k.SK.S, Whole: whole}
			}
		}
	}
	return out
}

// Find returns the index of the first item whose keys begin so, -1 when there is none.
func (c Call) Find(pk, sk string) int {
	for i, it := range c.Items() {
		if strings.HasPrefix(it.PK, pk) && strings.HasPrefix(it.SK, sk) {
			return i
		}
	}
	return -1
}

// Unavailable is the answer of a server that fails.
func Unavailable() Fault {
	return Fault{Status: http.StatusInternalServerError, Body: []byte(`{"__type": "InternalServerError", "message": "injected"}`)}
}

// Throttled is the answer of DynamoDB to too many calls.
func Throttled() Fault {
	return Fault{
		Status: http.StatusBadRequest,
		Body:   []byte(`{"__type": "com.amazonaws.dynamodb.v20120810#ProvisionedThroughputExceededException", "message": "injected"}`),
	}
}

// Reasons why an item prevents a transaction.
const (
	Conflict   = "TransactionConflict"
	Validation = "ValidationError"
	Capacity   = "ThrottlingError"
)

// Canceled is the answer to a transaction that one of its items prevents.
func Canceled(c Call, item int, reason string) Fault {
	type cause struct {
		Code    string
		Message string `json:",omitempty"`
	}
	reasons := make([]cause, len(c.Items()))
	for i := range reasons {
		reasons[i].Code = "None"
	}
	if item < 0 || item >= len(reasons) {
		return Fault{}
	}
	reasons[item] = cause{reason, "injected"}
	body, _ := json.Marshal(map[string]any{ // texts always marshal
		"__type": "com.amazonaws.dynamodb.v20120810#TransactionCanceledException", "Message": "Transaction cancelled", "CancellationReasons": reasons,
	})
	return Fault{Status: http.StatusBadRequest, Body: body}
}
