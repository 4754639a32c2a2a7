package awsproxy

import (
	"encoding/json"
	"fmt"
	"net/http"
)

// executeBatch is the operation whose statements can fail one by one.
const executeBatch = "BatchExecuteStatement"

// Internal is the error code of a statement that failed in the server; see also Capacity.
const Internal = "InternalServerError"

// StatementFault is the error that the proxy reports for one statement of a BatchExecuteStatement.
type StatementFault struct {
	Code string
	// Executed: the server executes the statement, although the caller gets the error.
	Executed bool
}

// batchOfStatements is the body of a BatchExecuteStatement call.
type batchOfStatements struct {
	Statements []json.RawMessage
}

// Statements returns the number of statements in a BatchExecuteStatement; 0 for other calls.
func (c Call) Statements() int {
	var in batchOfStatements
	if c.Name != executeBatch || json.Unmarshal(c.Body, &in) != nil {
		return 0
	}
	return len(in.Statements)
}

// executeStatements has the server execute the statements that shall be executed. Its answer has
// their responses, and the injected errors of the statements that shall fail.
func (p *Proxy) executeStatements(r *http.Request, c Call, faults map[int]StatementFault) (answer, error) {
	var in batchOfStatements
	if err := json.Unmarshal(c.Body, &in); err != nil {
		return answer{}, fmt.Errorf("statements: %w", err)
	}
	var passedOn batchOfStatements
	for i, statement := range in.Statements {
		if f, failed := faults[i]; !failed || f.Executed {
			passedOn.Statements = append(passedOn.Statements, statement)
		}
	}
	var got struct{ Responses []json.RawMessage }
	a := answer{status: http.StatusOK, header: http.Header{"Content-Type": {"application/x-amz-json-1.0"}}}
	if len(passedOn.Statements) > 0 {
		body, err := json.Marshal(passedOn)
		if err != nil {
			return answer{}, fmt.Errorf("statements: %w", err)
		}
		if a, err = p.forward(r.Context(), r.Header, body); err != nil || a.status != http.StatusOK {
			return a, err
		}
		if err := json.Unmarshal(a.body, &got); err != nil {
			return answer{}, fmt.Errorf("statements: %w", err)
		}
		if len(got.Responses) != len(passedOn.Statements) {
			return answer{}, fmt.Errorf("%d statements have %d responses", len(passedOn.Statements), len(got.Responses))
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
	a.header = http.Header{"Content-Type": {"application/x-amz-json-1.0"}} // the server's checksum header is left out: the body differs
	var err error
	a.body, err = json.Marshal(out)
	return a, err
}
