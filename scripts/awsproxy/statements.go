package awsproxy

import (
	"context"
	"encoding/json"
	"net/http"

	"urr.guru/pkg/dynamo/dynamotest/strict"
)

// executeBatch is the operation whose statements can fail one by one.
const executeBatch = "BatchExecuteStatement"

// Internal is the error code of a statement that failed in the server; see also Capacity.
const Internal = "InternalServerError"

// StatementFault is the error that the proxy reports for one statement of a BatchExecuteStatement.
type StatementFault = strict.StatementError

// Statements returns the number of statements in a BatchExecuteStatement; 0 for other calls.
func (c Call) Statements() int {
	var in struct{ Statements []json.RawMessage }
	if c.Name != executeBatch || json.Unmarshal(c.Body, &in) != nil {
		return 0
	}
	return len(in.Statements)
}

// limited has the server execute a call, or the part of it that the rules permit, without the
// statements that shall fail.
func (p *Proxy) limited(r *http.Request, c Call, faults map[int]StatementFault) (answer, error) {
	server := strict.Server(func(ctx context.Context, operation string, body []byte) (strict.Answer, error) {
		header := r.Header.Clone()
		header.Set("X-Amz-Target", "DynamoDB_20120810."+operation)
		a, err := p.forward(ctx, header, body)
		return strict.Answer{Status: a.status, Body: a.body}, err
	})
	if p.rules != nil {
		server = p.rules.Serve(server)
	}
	var got strict.Answer
	var err error
	if len(faults) > 0 {
		got, err = strict.RunStatements(r.Context(), server, c.Body, faults)
	} else {
		got, err = server(r.Context(), c.Name, c.Body)
	}
	// The server's checksum header is left out, since the body may differ.
	return answer{status: got.Status, header: http.Header{"Content-Type": {"application/x-amz-json-1.0"}}, body: got.Body}, err
}
