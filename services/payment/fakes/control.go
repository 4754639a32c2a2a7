package fakes

import (
	"encoding/json"
	"net/http"
)

// Accept serves an address to which end-to-end tests send JSON to control a fake.
func Accept[T any](mux *http.ServeMux, pattern string, take func(T) error) {
	mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
		var value T
		err := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxBody)).Decode(&value)
		if err == nil {
			err = take(value)
		}
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		w.WriteHeader(http.StatusNoContent)
	})
}

// Show serves an address at which end-to-end tests read the state of a fake.
func Show[T any](mux *http.ServeMux, pattern string, show func() T) {
	mux.HandleFunc(pattern, func(w http.ResponseWriter, _ *http.Request) { JSON(http.StatusOK, show()).write(w) })
}
