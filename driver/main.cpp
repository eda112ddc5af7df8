// The `riffle` program.
int main() { return 0; }
