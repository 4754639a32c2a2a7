package awsproxy

import (
	"encoding/json"
	"fmt"
	"net/http"
)

// executeBatch is the operation whose statements fail one by one.
const executeBatch = "BatchExecuteStatement"

// Internal is the code of a statement that failed for no reason of its own; Capacity is another.
const Internal = "InternalServerError"

// StatementFault is the error that the proxy reports for one statement of a BatchExecuteStatement.
type StatementFault struct {
	Code string
	// Executed passes the statement on all the same.
	Executed bool
}

// batchOfStatements is the body of a BatchExecuteStatement.
type batchOfStatements struct {
	Statements []json.RawMessage
}

// Statements returns the number of statements of a BatchExecuteStatement; 0 for other calls.
func (c Call) Statements() int {
	var in batchOfStatements
	if c.Name != executeBatch || json.Unmarshal(c.Body, &in) != nil {
		return 0
	}
	return len(in.Statements)
}

// executeStatements passes on the statements of a batch that shall be executed. It answers with their
// responses, and the errors of those that fail.
func (p *Proxy) executeStatements(r *http.Request, c Call, faults map[int]StatementFault) (answer, error) {
	var in batchOfStatements
	if err := json.Unmarshal(c.Body, &in); err != nil {
		return answer{}, fmt.Errorf("statements: %w", err)
	}
	var rest batchOfStatements
	for i, statement := range in.Statements {
		if f, failed := faults[i]; !failed || f.Executed {
			rest.Statements = append(rest.Statements, statement)
		}
	}
	var got struct{ Responses []json.RawMessage }
	a := answer{status: http.StatusOK, header: http.Header{"Content-Type": {"application/x-amz-json-1.0"}}}
	if len(rest.Statements) > 0 {
		body, err := json.Marshal(rest)
		if err != nil {
			return answer{}, fmt.Errorf("statements: %w", err)
		}
		if a, err = p.forward(r.Context(), r.Header, body); err != nil || a.status != http.StatusOK {
			return a, err
		}
		if err := json.Unmarshal(a.body, &got); err != nil {
			return answer{}, fmt.Errorf("statements: %w", err)
		}
		if len(got.Responses) != len(rest.Statements) {
			return answer{}, fmt.Errorf("%d statements have %d responses", len(rest.Statements), len(got.Responses))
		}
	}
	var out struct{ Responses []any }
	for i := range in.Statements {
		f, failed := faults[i]
		var response any = map[string]any{"Error": map[string]string{"Code": f.Code, "Message": "injected"}}
		if !failed {
			response = got.Responses[0]
		}
		if !failed || f.Executed {
			got.Responses = got.Responses[1:]
		}
		out.Responses = append(out.Responses, response)
	}
	a.header = http.Header{"Content-Type": {"application/x-amz-json-1.0"}} // without the checksum of the original
	var err error
	a.body, err = json.Marshal(out)
	return a, err
}
