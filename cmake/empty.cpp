// libriffle.so is made of the archives that it links.
